"""People on a GPU, through torch (``unbin[gpu]``); imported only for those who ask for it.

Rows live on the device, sums over them are made there, and the sums of blocks come back: solvers,
starts and inference are the ones every engine uses.
"""

from unbin.rows.engines.torch.engine import TorchEngine

__all__ = ["TorchEngine"]
