"""earsight finds where in the picture a sound comes from, and says so when nothing visible makes it.

The public names load on first use, so that `import earsight` stays fast and imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from earsight.localize import Localizer as Localizer
    from earsight.model_evaluation import EvalSettings as EvalSettings
    from earsight.model_evaluation import evaluate as evaluate
    from earsight.training.loop import train as train

__version__ = "0.1.0"
__all__ = ["EvalSettings", "Localizer", "__version__", "evaluate", "train"]

_WHERE = {
    "Localizer": "earsight.localize",
    "EvalSettings": "earsight.model_evaluation",
    "evaluate": "earsight.model_evaluation",
    "train": "earsight.training.loop",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'earsight' has no attribute '{name}'; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_WHERE[name]), name)
