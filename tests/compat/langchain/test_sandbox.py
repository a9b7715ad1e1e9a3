"""The standard tests that LangChain has for deepagents' sandboxes: through its package for E2B, or Rekindle's own."""

import os
from collections.abc import Iterator

import pytest
from deepagents.backends.protocol import SandboxBackendProtocol
from langchain_tests.integration_tests import SandboxIntegrationTests


class TestSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[SandboxBackendProtocol]:
        if os.environ.get("REKINDLE_SERVER"):
            from rekindle import Sandbox
            from rekindle.adapters.deepagents import RekindleSandbox

            with Sandbox(ttl=3600) as sandbox:
                yield RekindleSandbox(sandbox)
        else:
            import e2b
            from langchain_e2b import E2BSandbox

            with e2b.Sandbox.create(timeout=3600) as sandbox:
                yield E2BSandbox(sandbox=sandbox)
