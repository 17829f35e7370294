"""A cluster for the tests of the Dask engine."""

import pytest

from tests.helpers.clusters import start_cluster


@pytest.fixture(scope="module")
def client():
    """Return a client of two workers."""
    from distributed import Client

    with start_cluster() as cluster, Client(cluster) as found:
        yield found
