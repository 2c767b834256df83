"""Workers: started through the launcher, pooled by trust domain, ended as whole trees."""

from .calls import CallReply, CallRequest, CallTimer, LoadFailure, NotDelivered, RequestRefused
from .child import Child, ExitNotice, ViewRoot
from .launcher import Launcher, open_launcher
from .pool import Lease, PoolStatistics, WorkerPool, open_pool
from .runtimes import NodeRuntime, find_node
from .spec import WorkerSpec
from .verdict import attribute_exit, attribute_failure
from .worker import Worker

__all__ = [
    "CallReply",
    "CallRequest",
    "CallTimer",
    "Child",
    "ExitNotice",
    "Launcher",
    "Lease",
    "LoadFailure",
    "NodeRuntime",
    "NotDelivered",
    "PoolStatistics",
    "RequestRefused",
    "ViewRoot",
    "Worker",
    "WorkerPool",
    "WorkerSpec",
    "attribute_exit",
    "attribute_failure",
    "find_node",
    "open_launcher",
    "open_pool",
]
