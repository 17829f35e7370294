"""Dask clusters on this machine."""


def start_cluster(n_workers=2, *, processes=False):
    """Start workers of one thread each: threads of this process, quick to start, or processes."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=":0"
    )
