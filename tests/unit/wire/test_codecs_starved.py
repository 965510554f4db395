"""Codecs where no memory is left: an error that is handled, never the end of the process."""

from __future__ import annotations

import subprocess
import sys
import zlib

import cramjam
import pytest
import zstandard

from mirrorfleet.wire import codecs
from mirrorfleet.wire.codecs import Codec, compress, decompress
from tests.unit.wire import starving

COMPRESSED = [codec for codec in Codec if codec]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_codec_without_memory_raises_and_the_process_goes_on(codec: Codec) -> None:
    command = [sys.executable, "-m", starving.__name__, codec.name]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert child.returncode == 0, child.stderr[-2000:]
    said = child.stdout.splitlines()
    assert len(said) == 2 * len(starving.PIECES)
    assert {"no memory"} <= set(said) <= {"no memory", "done"}


@pytest.mark.parametrize(
    "error",
    [
        zstandard.ZstdError("zstd decompress error: Allocation error : not enough memory"),
        zlib.error("Error -4 while decompressing data"),
    ],
)
def test_missing_memory_is_not_said_to_be_damage(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bytes:
        raise error

    monkeypatch.setitem(codecs._DECOMPRESS, Codec.ZSTD, refused)
    with pytest.raises(MemoryError, match="zstd: "):
        decompress(Codec.ZSTD, b"x")


@pytest.mark.parametrize("library_says", [cramjam.CompressionError, zstandard.ZstdError])
def test_what_fails_to_compress_is_said_to_miss_memory(
    library_says: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bytes:
        raise library_says("cannot compress")

    monkeypatch.setitem(codecs._COMPRESS, Codec.LZ4, refused)
    with pytest.raises(MemoryError, match="lz4: cannot compress"):
        compress(Codec.LZ4, b"x")
