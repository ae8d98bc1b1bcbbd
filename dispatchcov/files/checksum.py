"""The checksum of a data file: over all of its bytes, and kept in it, in a table of its own.

The table is the first that is made, so its page is the second of the file, and SQLite fills a page from its end: the
one row, of one column, ends where the page does. While the checksum is computed its own bytes are :data:`UNKNOWN`.
"""

from __future__ import annotations

import hashlib
from typing import BinaryIO

from dispatchcov.errors import DataError

PAGE = 4096
UNKNOWN = b"\xff" * hashlib.sha256().digest_size
AT = 2 * PAGE - len(UNKNOWN)
_CHUNK = 1 << 20


def seal(path: str) -> None:
    """Put the checksum of the data file ``path`` in its place, where :data:`UNKNOWN` is; ``ValueError`` if it is not.

    Raises ``OSError`` if the file cannot be read or written.
    """
    with open(path, "r+b") as stream:
        found, computed = _checksums(stream)
        if found != UNKNOWN:
            raise ValueError(f"expected the place of the checksum at byte {AT}, got {found.hex()}")
        stream.seek(AT)
        stream.write(computed)


def check(path: str, stream: BinaryIO) -> None:
    """Raise :class:`DataError` unless ``stream``, the data file ``path``, has the content that its checksum is of."""
    found, computed = _checksums(stream)
    if found != computed:
        raise DataError(
            f"{path}: expected a data file whose content has the SHA-256 {found.hex()[:12]}..., which it names, got "
            f"{computed.hex()[:12]}...; the file is damaged or was changed"
        )


def _checksums(stream: BinaryIO) -> tuple[bytes, bytes]:
    """The checksum that ``stream`` names, and that which it has."""
    stream.seek(0)
    total = hashlib.sha256(stream.read(AT))
    found = stream.read(len(UNKNOWN))
    total.update(UNKNOWN)
    while chunk := stream.read(_CHUNK):
        total.update(chunk)
    return found, total.digest()
