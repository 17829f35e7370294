"""What a planned table would disclose about the people in it."""

from unbin.disclosure.auditing import audit
from unbin.disclosure.results import Audit

__all__ = ["Audit", "audit"]
