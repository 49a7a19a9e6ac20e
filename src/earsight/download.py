"""Files fetched once: by address and sha256, into a folder that keeps them.

A file is downloaded beside its place and renamed when it is whole and its hash is right, so that processes that start
together never see half of it. What was fetched before is checked against its hash again.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from earsight.errors import DataError, UsageError
from earsight.files import write_atomically

Progress = Callable[[int, int | None], None]
"""Called with the bytes that have come and the bytes there are, None where the server does not say."""
MAX_BYTES = 1 << 30
TIMEOUT = 30.0
"""Seconds a server may stay silent."""
LONGEST = 3600.0
"""Seconds one download may take in all; a server that sends a byte now and then would never end."""
_CHUNK = 1 << 18


def cache_folder() -> Path:
    """Where fetched files are kept: $EARSIGHT_CACHE, else earsight in $XDG_CACHE_HOME, else in ~/.cache."""
    own = os.environ.get("EARSIGHT_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules: a relative path there is to be ignored.
    return (Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache") / "earsight"


def fetch(
    url: str,
    sha256: str,
    name: str,
    folder: Path | None = None,
    *,
    max_bytes: int = MAX_BYTES,
    timeout: float = TIMEOUT,
    progress: Progress | None = None,
    moved_by: str = "EARSIGHT_CACHE",
) -> Path:
    """The file `name` in `folder` (by default the cache), downloaded from `url` where it is not there yet.

    Args:
        url: http or https address.
        sha256: hash of the whole file, 64 hex digits, or the first of them where no more are known.
        name: plain file name.
        max_bytes: a download stops when more than this comes.
        timeout: seconds the server may stay silent.
        moved_by: the environment variable that names another place for the folder, for messages.
    """
    if not re.fullmatch(r"https?://[^\s/]+\S*", url):
        raise UsageError(f"Expected an address that begins with http:// or https://, but got {url}. Correct it.")
    if not re.fullmatch(r"[0-9a-f]{8,64}", sha256):
        raise ValueError(f"Expected 8 to 64 hex digits of a sha256, but got {sha256!r}.")
    if Path(name).name != name or name in ("", ".", ".."):
        raise ValueError(f"Expected a plain file name, but got {name!r}.")
    target = (folder or cache_folder()) / name
    if target.is_file():
        _check_kept(target, sha256)
        return target
    by_hand = f"Put the file there by hand: {target} (sha256 {sha256})."

    def fill(beside: Path) -> None:
        with beside.open("xb") as file:
            found = _download(url, file, max_bytes, timeout, progress, by_hand)
        if not found.startswith(sha256):
            raise DataError(
                f"Expected a file with sha256 {sha256} at {url}, but got one with {found}: it was damaged on the way "
                f"or has been changed there. Try again. {by_hand}"
            )

    try:
        write_atomically(target, fill)
    except OSError as error:
        raise DataError(
            f"Expected to write {target}, but got: {error}. Set {moved_by} to a folder that can be written."
        ) from error
    return target


def _check_kept(path: Path, sha256: str) -> None:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"Expected to read {path}, but got: {error}. Change its permissions.") from error
    if not found.startswith(sha256):
        raise DataError(
            f"Expected a sha256 of {sha256} for {path}, but got {found}: the file is damaged or of another version. "
            f"Delete {path} and run again."
        )


def _opener() -> urllib.request.OpenerDirector:
    """Only http and https, also after a redirect: the usual opener would go on to ftp."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _download(url: str, file: BinaryIO, max_bytes: int, timeout: float, progress: Progress | None, by_hand: str) -> str:
    """Write what the address holds, and say its sha256."""
    digest, done, end = hashlib.sha256(), 0, time.monotonic() + LONGEST
    request = urllib.request.Request(url, headers={"User-Agent": "earsight"})
    try:
        with _opener().open(request, timeout=timeout) as answer:
            length = answer.headers.get("Content-Length") or ""
            total = int(length) if length.isdecimal() else None
            while chunk := answer.read(_CHUNK):
                done += len(chunk)
                if done > max_bytes or (total or 0) > max_bytes:
                    raise DataError(
                        f"Expected at most {max_bytes:,} bytes from {url}, but got {max(done, total or 0):,}. "
                        f"Check the address. {by_hand}"
                    )
                if time.monotonic() > end:
                    raise TimeoutError(f"not done after {LONGEST:.0f} s")
                digest.update(chunk)
                file.write(chunk)
                if progress is not None:
                    progress(done, total)
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a malformed address in a redirect
        raise DataError(f"Expected to download {url}, but got: {_reason(error)}. {by_hand}") from error
    if total is not None and done < total:
        raise DataError(
            f"Expected {total:,} bytes from {url}, but got {done:,}: the download was cut off. Try again. {by_hand}"
        )
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    return str(error).strip("<>").removeprefix("urlopen error ").rstrip(".") or type(error).__name__
