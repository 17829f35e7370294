"""Public files fetched once: checked against a digest, and kept whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import io
import os
import secrets
import sys
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

from unbin._io import make_folder
from unbin.exceptions import DownloadError, OutputError

MAX_BYTES = 256 * 2**20
"""The most bytes of a download, and of what it unpacks to."""
TIMEOUT = 60.0
"""Seconds without an answer."""


def cache_folder() -> Path:
    """Return ``UNBIN_CACHE``, or the place for unbin among the user's caches."""
    if named := os.environ.get("UNBIN_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "unbin"


def fetch_zipped(
    url: str, name: str, sha256: Collection[str], folder: Path, *, max_bytes: int = MAX_BYTES
) -> Path:
    """Fetch a zip archive and keep one file of it; return where it is.

    Parameters
    ----------
    url : str
    name : str
        Of the file in the archive, and in ``folder``.
    sha256 : collection of str
        Digests the unpacked file may have.
    folder : Path
        Is made where it is missing.
    max_bytes : int
        A longer answer, or a longer file in it, is refused.

    Raises
    ------
    DownloadError
        Nothing came, or not the published file; ``folder`` is as it was.
    OutputError
        The file cannot be written.
    """
    make_folder(folder)
    data = _unpack(_get(url, max_bytes), name, url, max_bytes)
    found = hashlib.sha256(data).hexdigest()
    if found not in sha256:
        raise DownloadError(
            f"{url}: {name} must have the sha256 {' or '.join(sorted(sha256))}, got {found}; the "
            "published file has changed or was tampered with, nothing was kept"
        )
    path = folder / name
    _write(path, data)
    return path


def _get(url: str, max_bytes: int) -> bytes:
    request = urllib.request.Request(url, headers={"User-Agent": "unbin"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            length = answer.headers.get("Content-Length")
            data: bytes = answer.read(max_bytes + 1)
    except urllib.error.HTTPError as error:
        with error:
            what = f"{error.code} {error.reason}"
        raise _failed(url, what, "download it yourself and pass its path") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise _failed(url, str(reason) or type(error).__name__, "check the connection") from None
    if len(data) > max_bytes:
        raise _failed(url, f"more than {max_bytes:,} bytes", "check the address")
    if length is not None and len(data) != int(length):
        raise _failed(url, f"{len(data):,} of {int(length):,} bytes", "try again")
    return data


def _unpack(data: bytes, name: str, url: str, max_bytes: int) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(name) as stream:
            content = stream.read(max_bytes + 1)
    except KeyError:
        raise _failed(url, f"an archive without {name}", "check the address") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _failed(url, f"no whole zip archive ({error})", "try again") from None
    if len(content) > max_bytes:
        raise _failed(url, f"a file of more than {max_bytes:,} bytes", "check the address")
    return content


def _failed(url: str, got: str, advice: str) -> DownloadError:
    return DownloadError(f"{url}: cannot be fetched, got {got}; {advice}")


def _write(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written, got {error.strerror}; choose another UNBIN_CACHE"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
