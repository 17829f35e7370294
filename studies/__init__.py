"""The leaderboard: real studies × what is published of them × methods.

``python -m studies.run`` fills ``results.csv``, ``python -m studies.page`` writes the page and its
picture. A study is one file in ``data/``, a method one file in ``methods/``.
"""

import sys
from pathlib import Path

# loaders of the studies are those of the experiments
sys.path.append(str(Path(__file__).parents[1] / "experiments"))
