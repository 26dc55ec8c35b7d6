"""What numba-cuda's tests expect of their repository's conftest.py, which the wheel leaves out."""

import pytest


@pytest.fixture
def initialize_from_pytest_config(request):
    """``CUDATestCase`` writes reproducers of failed file checks when this is set; it is an option there."""
    if request.instance is not None:
        request.instance._dump_failed_filechecks = False
