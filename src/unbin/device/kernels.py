"""Which sum is made how, of rows on a device; importing this registers them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from unbin.design import extremes, gram_sums, row_sums
from unbin.device import sums
from unbin.device.ranks import matching
from unbin.device.rows import TorchRows
from unbin.device.scoring import score
from unbin.exceptions import EngineError
from unbin.likelihood.ecological import bin_value_sums
from unbin.likelihood.heldout import count_sums
from unbin.likelihood.moments import moment_sums
from unbin.likelihood.order import order_part
from unbin.likelihood.scoring import score_rows
from unbin.likelihood.start import eta_sums
from unbin.matching.objective import imputed, matching_sums
from unbin.matching.spread import line


def _refused(what: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any) -> NoReturn:
        raise EngineError(f"engine 'torch': {what}; use engine='local'")

    return refuse


KERNELS: dict[Any, Callable[..., Any]] = {
    gram_sums: sums.gram,
    row_sums: sums.by_column,
    extremes: sums.ends,
    eta_sums: sums.eta_moments,
    moment_sums: sums.moments,
    score_rows: score,
    count_sums: sums.expected,
    bin_value_sums: sums.bin_values,
    matching_sums: matching,
    order_part: _refused("cannot use quantiles and other order statistics beside tables"),
    imputed: _refused("keeps no targets of people"),
    line: _refused("matching needs all people of a block in one part, got blocks in several"),
}
"""How each sum is made of rows on a device."""

for _kernel, _function in KERNELS.items():
    _kernel.register(TorchRows, _function)
