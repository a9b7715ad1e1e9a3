"""Harbor: a sandbox as the environment of a trial.

    harbor run --path TASKS --agent oracle \\
        --environment-import-path rekindle.adapters.harbor:RekindleEnvironment --ek template=python-node

A sandbox is made from a template of the server. It is the one that ``template`` names, else the one with the name of the
task's ``docker_image``. A Dockerfile is not built: what it would install must be in the template.
"""

from __future__ import annotations

import asyncio
import logging
import tarfile
import tempfile
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from harbor.environments.base import (
    BaseEnvironment,
    ExecResult,
    transfer_tar_filter,
)
from harbor.environments.capabilities import (
    EnvironmentCapabilities,
    EnvironmentResourceCapabilities,
)
from harbor.environments.definition import (
    DOCKERFILE_NAME,
    effective_exec_cwd,
    parse_dockerfile_workdir,
)
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.config import ResourceMode
from harbor.models.trial.paths import TrialPaths

from .._async import AsyncEvent, AsyncSandbox
from .._calls import CreateOptions, ExecuteOptions, lost
from .._errors import RekindleError
from .._types import Output
from ._common import NOT_FOUND, as_user, is_no_program, run, shell_code, text

#: Who runs what nobody is named for: tasks are written for containers.
ROOT = "root"
#: The network policy of a sandbox that has none.
NO_NETWORK = "none"


class RekindleEnvironment(BaseEnvironment):
    """A sandbox for a trial. ``template`` names what it is made from, ``network`` the network policy of tasks that want the
    internet (they have none without it), ``ttl`` how long it lives, in seconds."""

    def __init__(
        self,
        environment_dir: Path,
        environment_name: str,
        session_id: str,
        trial_paths: TrialPaths,
        task_env_config: EnvironmentConfig,
        logger: logging.Logger | None = None,
        *args: Any,
        template: str | None = None,
        network: str | None = None,
        ttl: float = 86_400,
        **kwargs: Any,
    ) -> None:
        self._template = template or task_env_config.docker_image
        self._network = network
        self._ttl = float(ttl)
        self._sandbox: AsyncSandbox | None = None
        super().__init__(
            environment_dir, environment_name, session_id, trial_paths, task_env_config, logger, *args, **kwargs
        )
        self._workdir: str | None = parse_dockerfile_workdir(environment_dir / DOCKERFILE_NAME)

    @staticmethod
    def type() -> str:
        return "rekindle"

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True)

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True, dynamic_network_policy=self._network is not None)

    def _validate_definition(self) -> None:
        if not self._template:
            raise FileNotFoundError(
                "a sandbox is made from a template of the server, not from a Dockerfile: name one with "
                "`--ek template=NAME`, or as the docker_image of the task's environment"
            )

    @property
    def sandbox(self) -> AsyncSandbox:
        """The sandbox itself, once the environment is started."""
        if self._sandbox is None:
            raise RuntimeError("the environment is not started")
        return self._sandbox

    # Its life.

    async def start(self, force_build: bool) -> None:
        options: CreateOptions = {
            "template": str(self._template),
            "ttl": self._ttl,
            # It lives as long as the trial, however long the model thinks.
            "idle_timeout": 0,
            "metadata": {"environment": self.environment_name, "session": self.session_id},
        }
        cpus = self._resource_limit_value("cpu", auto_mode=ResourceMode.LIMIT)
        if cpus is not None:
            options["milli_cpus"] = int(cpus * 1000)
        memory = self._resource_limit_value("memory", auto_mode=ResourceMode.LIMIT)
        if memory is not None:
            options["memory_bytes"] = int(memory) * 1024 * 1024
        network = self._policy(self.network_policy)
        if network != NO_NETWORK:
            options["network"] = network
        elif self.network_policy.network_mode == NetworkMode.PUBLIC:
            self.logger.warning("the sandbox has no network: `--ek network=POLICY` names the policy to have")
        self._sandbox = AsyncSandbox(**options)
        await self._sandbox.__aenter__()
        place = effective_exec_cwd(None, self.task_env_config.workdir, self._workdir)
        if place:
            await self._sandbox.make_dir(place, user=ROOT)
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        await self._upload_environment_dir_after_start()

    async def stop(self, delete: bool) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.cleanup()

    def _policy(self, policy: NetworkPolicy) -> str:
        return self._network if self._network and policy.network_mode == NetworkMode.PUBLIC else NO_NETWORK

    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        await self.sandbox.set_network(self._policy(network_policy))

    # Programs.

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        options: ExecuteOptions = {"env": self._merge_env(env) or {}}
        place = effective_exec_cwd(cwd, self.task_env_config.workdir, self._workdir)
        if place:
            options["cwd"] = place
        if timeout_sec:
            options["timeout"] = timeout_sec
        who = self._resolve_user(user)
        words = as_user(["/bin/bash", "-c", command], ROOT if who is None else str(who), options)
        told = self._output_callback()
        try:
            if told is None:
                result = await run(self.sandbox, words, options)
            else:
                # As it is printed. A program that prints in pieces of characters is shown with signs of that.
                execution = await self.sandbox.start(words, **options)
                events: AsyncGenerator[AsyncEvent, None] = execution.attach()
                try:
                    async with aclosing(events):
                        async for event in events:
                            if event.stdout:
                                await told(text(event.stdout), "stdout")
                            if event.stderr:
                                await told(text(event.stderr), "stderr")
                    result = await execution.wait()
                except BaseException:
                    await asyncio.shield(asyncio.ensure_future(execution.kill()))
                    raise
            stdout = await _kept(result.full_stdout, result.stdout_output)
            stderr = await _kept(result.full_stderr, result.stderr_output)
        except RekindleError as error:
            if is_no_program(error):
                return ExecResult(stdout="", stderr=error.message, return_code=NOT_FOUND)
            raise
        if result.timed_out:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        return ExecResult(stdout=stdout, stderr=stderr, return_code=shell_code(result))

    # Files.

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        mode = Path(source_path).stat().st_mode & 0o777
        await self.sandbox.upload_file(source_path, target_path, mode=mode, user=ROOT)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        aside = f"/tmp/.upload-{uuid.uuid4().hex}.tar"
        with tempfile.NamedTemporaryFile(suffix=".tar") as packed:
            with tarfile.open(fileobj=packed, mode="w") as archive:
                archive.add(source_dir, arcname=".")
            packed.flush()
            await self.sandbox.upload_file(packed.name, aside, user=ROOT)
        try:
            words = 'mkdir -p -- "$2" && tar -xf "$1" -C "$2" --no-same-owner'
            unpacked = await self.sandbox.execute(["/bin/sh", "-c", words, "sh", aside, target_dir], user=ROOT)
            if unpacked.exit_code != 0:
                raise RuntimeError(f"cannot unpack into {target_dir}: {unpacked.stderr}")
        finally:
            await self.sandbox.remove(aside, user=ROOT)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        await self.sandbox.download_file(source_path, target_path, user=ROOT)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        Path(target_dir).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as aside:
            packed = Path(aside) / "directory.tar"
            await self.sandbox.download_file(source_dir, packed, user=ROOT)
            # What a guest packed: nothing of it may come to lie outside.
            with tarfile.open(packed) as archive:
                archive.extractall(target_dir, filter=transfer_tar_filter)


async def _kept(full: Callable[..., Awaitable[bytes]], output: Output) -> str:
    """What there is of an output. The framework has no field for the rest, and a trial need not fail for it."""
    content = text(await full(partial=True))
    if lost(output):
        content += f"\n[{output.total_bytes - output.spilled_bytes} more bytes are lost]\n"
    return content
