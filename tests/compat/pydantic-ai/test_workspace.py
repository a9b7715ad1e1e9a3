"""The conformance suite of pydantic-ai's workspaces: through its harness's backend for E2B, or Rekindle's own."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

OWN = bool(os.environ.get("REKINDLE_SERVER"))
if OWN:
    from rekindle import AsyncClient
    from rekindle.adapters.pydantic_ai import RekindleBackend as Backend
else:
    import e2b
    from pydantic_ai_harness.e2b_sandbox import E2BSandboxBackend as Backend


async def destroy(backend: WorkspaceBackend) -> None:
    assert backend.ref is not None
    if OWN:
        async with AsyncClient() as client:
            await client.sandbox(backend.ref.id).cleanup()
    else:
        await e2b.AsyncSandbox.kill(backend.ref.id)


class TestWorkspace(WorkspaceBackendSuite):
    @pytest.fixture(scope="class")
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture(scope="class")
    async def backend(self) -> AsyncIterator[WorkspaceBackend]:
        backend = Backend()
        yield backend
        if backend.ref is not None:
            await destroy(backend)

    @pytest.fixture
    def can_detect_exit_with_inherited_output_pipes(self) -> bool:
        # E2B's SDK waits for the end of the output.
        return OWN

    @pytest.fixture
    def fresh_backend(self) -> Callable[[], WorkspaceBackend]:
        return Backend

    @pytest.fixture
    def attach_backend(self) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: Backend(ref=ref)

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        return destroy
