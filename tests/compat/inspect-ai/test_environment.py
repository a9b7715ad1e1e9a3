"""The self-check that inspect_ai has for sandbox environments: through E2B's SDK, or Rekindle's own."""

import os

import pytest_asyncio
from inspect_ai.util._sandbox.self_check import *  # noqa: F403


@pytest_asyncio.fixture
async def sandbox_env():
    if os.environ.get("REKINDLE_SERVER"):
        from rekindle.adapters.inspect_ai import RekindleEnvironment

        environments = await RekindleEnvironment.sample_init("self-check", None, {})
        try:
            yield environments["default"]
        finally:
            await RekindleEnvironment.sample_cleanup("self-check", None, environments, False)
    else:
        import e2b
        from environment import E2BEnvironment

        sandbox = await e2b.AsyncSandbox.create(timeout=600)
        try:
            yield E2BEnvironment(sandbox)
        finally:
            await sandbox.kill()
