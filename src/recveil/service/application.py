"""The service as an ASGI application: the guard in front, the routes behind it, the jobs beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from recveil.core.errors import RecveilError
from recveil.service import apply_routes, job_routes, page_routes, table_routes
from recveil.service.context import ServiceContext, answer_error
from recveil.service.guards import RequestGuard, Sessions
from recveil.service.job_queue import JobQueue, Launcher, start_worker
from recveil.service.job_store import JobStore
from recveil.service.prometheus import Measurements
from recveil.service.settings import ServiceSettings, prepare_folder

__all__ = ["create_app"]


def create_app(settings: ServiceSettings, *, launch: Launcher = start_worker) -> FastAPI:
    """Make the application; the map is read and the folder is checked here, jobs start when it is served.

    Args:
        settings: rules of the service.
        launch: starts the worker of a job.

    Raises:
        UsageError: the folder cannot be used.
        DataError: the map cannot be read.
    """
    context = _make_context(settings, launch)

    @asynccontextmanager
    async def run_jobs(app: FastAPI) -> AsyncIterator[None]:
        with context.store.hold_lock():
            context.queue.start()
            try:
                yield
            finally:
                context.queue.stop()

    guard = Middleware(RequestGuard, settings=settings, sessions=context.sessions, counts=context.counts)
    app = FastAPI(
        title="recveil",
        version=version("recveil"),
        description="Audits and defends user vectors of recommenders against attribute inference.",
        docs_url=None,  # those pages load scripts from other hosts
        redoc_url=None,
        lifespan=run_jobs,
        middleware=[guard],
    )
    app.state.context = context
    for routes in (apply_routes, page_routes, table_routes, job_routes):  # routes are tried in turn: the busiest first
        app.include_router(routes.router)
    for kind in (RequestValidationError, ValidationError, HTTPException, RecveilError, Exception):
        app.add_exception_handler(kind, answer_error)
    return app


def _make_context(settings: ServiceSettings, launch: Launcher) -> ServiceContext:
    served = None
    if settings.map_path is not None:
        from recveil.service.served_map import ServedMap

        served = ServedMap.load(settings.map_path)
    store = JobStore(prepare_folder(settings.folder))
    queue = JobQueue(store, max_jobs=settings.max_jobs, launch=launch)
    return ServiceContext(settings, store, queue, Sessions(settings.token), Measurements(), served)
