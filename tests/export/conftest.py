"""One exported model for all tests that only read it."""

from __future__ import annotations

import pytest
import small

from earsight.export import Exported, export_onnx


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """EZ-VSL exported to the folder `tiny`, next to its weights."""
    folder = tmp_path_factory.mktemp("exported")
    return export_onnx(small.weights(folder / "tiny.safetensors"), folder / "tiny")
