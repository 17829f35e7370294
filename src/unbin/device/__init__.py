"""People on a GPU, through torch; needs ``unbin[gpu]`` and is imported only by those who ask for it.

Rows live on the device, sums over them are made there, and the sums of blocks come back: solvers,
starts and inference are the ones every engine uses.
"""

from unbin.device.backend import Machine, open_machine
from unbin.device.people import DevicePeople, in_chunks, load
from unbin.device.rows import TorchRows, from_rows
from unbin.device.sums import KERNELS

__all__ = [
    "KERNELS",
    "DevicePeople",
    "Machine",
    "TorchRows",
    "from_rows",
    "in_chunks",
    "load",
    "open_machine",
]
