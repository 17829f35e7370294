"""Every number that decides something, and where it comes from.

Numbers that only say when a computation is accurate enough, or large enough for another way, stay
where they are used.
"""

from __future__ import annotations

# -- how tables are stacked ------------------------------------------------------------------------

FEWEST_GROUPS = 10
"""Groups from which on a partition may have a random intercept, and scores of groups a variance."""
LARGEST_GROUP = 400
"""Statistics of a group up to which tables that nest are stacked."""
LARGEST_BORDER = 1500
"""Statistics of tables that cross the groups, whose covariance (18 MB) is kept as a whole."""
MOST_PARTS = 8
"""Parts that a coarser table puts together, at most, to make groups of its blocks."""
LARGEST_PARTITION = 300
"""Blocks of a partition, other than the groups, up to which their intercepts are parameters."""

# -- what was published ----------------------------------------------------------------------------

MOST_HIDDEN = 0.999
"""Share of the information in a direction of hidden counts that is lost at most."""

# -- random intercepts -----------------------------------------------------------------------------

EFFECTS_LEVEL = 0.05
"""p value of the pulls of blocks below which they have a random intercept."""
HINT_OF_EFFECTS = 0.2
"""p value of block effects below which the exact likelihood is not relied on."""

# -- where scoring may end -------------------------------------------------------------------------

SINGULAR = 0.02
"""Below this share of the multinomial variance S is too close to singular for scoring."""

# -- standard errors -------------------------------------------------------------------------------

SUPPORTED = 4.0
"""Groups that inform a coefficient from which on they show its standard error."""
LEAST_ERROR = 0.6
"""Standard error by the groups as a share of that by the model, at least."""
MOST_LEVERAGE = 0.5
"""Parameters as a share of groups, at most, for the sandwich to be used."""

# -- the evidence ridge ----------------------------------------------------------------------------

WEAK = 0.1
"""Ridge over the smallest eigenvalue from which on a design is weak."""
APART = 2.0
"""Dispersion of the groups' levels from which on they lie further apart than people explain."""

FAR_BEYOND = 0.1
"""Mean square by which predicted means may leave the bins, over the variance of the outcome."""

# -- verdicts --------------------------------------------------------------------------------------

LARGEST_ERROR = 0.2
"""Standard error of a slope, as a share of sd(outcome)/sd(feature), that is still precise."""
LARGEST_FACTOR = 2.0
"""Factor on odds or rates by which the interval of a feature's effect may reach past its estimate.
"""
BLOCKS_PER_SLOPE = 3
"""Blocks of a single table for each slope, and two more, that a standard error needs."""
SHAPE_LEVEL, SHAPE_LEVEL_OF_FEW, MANY_BLOCKS = 0.03, 0.05, 100
"""p value of the shape test that rejects a fit; with few blocks it rejects too rarely."""
LARGEST_SHIFT = 1.0
"""Standard errors by which the shape of histograms may move a slope beside other tables."""
EXTENSION_LEVELS = ((1e-2, 1.0), (1e-4, 0.2))
"""p values of an extension, over all that are tested, and standard errors that it moves a slope."""
FAMILY_LEVEL = 0.05
"""p value of an extension, over all that are tested, that says why levels and shapes differ."""
CONTEXT_LEVEL = 1e-3
"""p value of the test of contextual effects that rejects a fit without them."""
MANY_IDS = 20
"""Blocks from which on their ids are looked at."""
ALIKE_LEVEL = 0.001
"""p value, over all ways to group ids, of levels of blocks that are alike, for which errors by
block are too small."""
LARGEST_MISFIT = 3.0
"""Q/df of several tables whose errors are the model's, in part; large effects make it 2."""
SHAPED = 0.5
"""Share of the information on a slope that is from the shape of histograms, to be pointed out."""
FEW_WITH_EFFECTS = 40
"""Blocks with effects below which the shapes of a table do not tell the sign of slopes."""
