"""People on a GPU, through torch (``unbin[gpu]``); imported only on request.

Rows live on the device, sums over them are computed there, and the sums of blocks come back:
solvers, starts and inference are shared by all engines.
"""

from unbin.rows.engines.torch.engine import TorchEngine

__all__ = ["TorchEngine"]
