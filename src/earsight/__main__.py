"""`python -m earsight`, the same as the command `earsight`; this is what torchrun starts."""

from earsight.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
