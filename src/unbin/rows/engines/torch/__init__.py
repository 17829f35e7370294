"""People on a GPU, through torch (``unbin[gpu]``); imported only for those who ask for it.

Rows live on the device, sums over them are made there, and the sums of blocks come back: solvers,
starts and inference are the ones every engine uses.
"""

from unbin.rows.engines.torch.inputs import block_codes, check_tensor, is_tensor, people_of
from unbin.rows.engines.torch.layout import DevicePeople
from unbin.rows.engines.torch.machine import Machine, open_machine
from unbin.rows.engines.torch.streaming import DeviceParts, read_people
from unbin.rows.engines.torch.tiles import TorchRows, from_rows

__all__ = [
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
