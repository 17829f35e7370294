"""People on a GPU, through torch (``unbin[gpu]``); imported only for those who ask for it.

Rows live on the device, sums over them are made there, and the sums of blocks come back: solvers,
starts and inference are the ones every engine uses.
"""

from unbin.device.backend import Machine, open_machine
from unbin.device.inputs import block_codes, check_tensor, is_tensor, people_of
from unbin.device.kernels import KERNELS
from unbin.device.parts import DeviceParts, read_people
from unbin.device.people import DevicePeople
from unbin.device.rows import TorchRows, from_rows

__all__ = [
    "KERNELS",
    "DeviceParts",
    "DevicePeople",
    "Machine",
    "TorchRows",
    "block_codes",
    "check_tensor",
    "from_rows",
    "is_tensor",
    "open_machine",
    "people_of",
    "read_people",
]
