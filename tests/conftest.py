"""Tests are async on asyncio; modules on virtual time override `anyio_backend`."""

import pytest


@pytest.fixture
def anyio_backend() -> object:
    return "asyncio"
