"""What an .npz file of maps may not be: each case is refused with its reason, and none is believed or unpacked."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import hurt
import numpy as np
import pytest

from earsight import mapfile
from earsight.errors import DataError
from earsight.mapfile import arrays, need_once, open_maps

ONE = np.zeros((3, 3), np.float32)
IDS = np.array(["a", "b"])
TWO = np.zeros((2, 3, 3), np.float32)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def with_header(text: str, values: bytes = b"") -> bytes:
    raw = text.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw + values


def archive(path: Path, members: list[tuple[str, bytes]], how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


def read_all(path: Path) -> None:
    for _ in open_maps(path).batches():
        pass


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((1, 3, 3), r"for 'a' .* got shape \(1, 3, 3\)\. Save it as \(h, w\)"),
        ((3, 3, 1), r"for 'a' .* got shape \(3, 3, 1\)\. Save it as \(h, w\)"),
        ((9,), r"for 'a' .* got shape \(9,\)"),
        ((), r"for 'a' .* got shape \(\)"),
        ((0, 3), r"sides from 1 to 8192 .* got shape \(0, 3\)\. Save it again, at another size"),
        ((8193, 1), r"sides from 1 to 8192 .* got shape \(8193, 1\)"),
    ],
)
def test_shapes_are_refused_and_never_guessed(shape: tuple[int, ...], told: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros(shape))
    with pytest.raises(DataError, match=f"Expected a map .*{told}"):
        read_all(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"id": IDS, "maps": ONE}, r"Expected maps \(2, h, w\) for 2 ids .*but got shape \(3, 3\)"),
        ({"id": IDS, "maps": TWO[:1]}, r"Expected maps \(2, h, w\) for 2 ids .*but got shape \(1, 3, 3\)"),
        ({"id": IDS, "maps": TWO[..., None]}, r"but got shape \(2, 3, 3, 1\). Save one map for each id"),
        ({"id": IDS, "maps": TWO[:, :0]}, r"Expected a map .*but got shape \(0, 3\)"),
        ({"id": IDS, "maps": np.asfortranarray(np.arange(18).reshape(2, 3, 3))}, "Fortran order.*ascontiguousarray"),
        ({"id": IDS, "maps": TWO.astype("U3")}, "Expected numbers of up to 64 bits for maps .*but got <U3"),
        ({"id": IDS, "maps": TWO.astype(complex)}, "Expected numbers of up to 64 bits for maps .*but got complex128"),
        ({"id": IDS, "maps": TWO.astype(np.longdouble)}, "Expected numbers of up to 64 bits for maps .*but got float"),
        ({"id": np.array([1, 2]), "maps": TWO}, r"Expected `id` \(N,\) of strings .*but got .*int64.*dtype=str"),
        ({"id": IDS.astype("S"), "maps": TWO}, r"Expected `id` \(N,\) of strings .*but got .*S1"),
        ({"id": IDS[:, None], "maps": TWO}, r"Expected `id` \(N,\) of strings .*but got shape \(2, 1\)"),
        ({"id": IDS.astype(object), "maps": TWO}, "Expected numbers for id .*but got Python objects.*dtype=str"),
        ({"id": IDS, "maps": TWO.astype(object)}, "Expected numbers for maps .*but got Python objects"),
        ({"maps": TWO}, "Expected an array `id` beside `maps` .*but got none. Save it with np.savez"),
        ({"id": IDS, "maps": TWO, "boxes": ONE}, "Expected bounds, confidence, id, maps .*but got also 'boxes'. Leave"),
        ({"id": IDS, "maps": TWO, "confidence": np.zeros(3)}, r"one confidence for each of 2 maps .*shape \(3,\)"),
        ({"id": IDS, "maps": TWO, "confidence": IDS}, "Expected one confidence for each of 2 maps .*<U1"),
        ({"id": IDS, "maps": TWO, "confidence": np.array([0, np.nan])}, "finite confidences .*but got nan for 'b'"),
        ({"id": IDS, "maps": TWO, "confidence": np.array([1e99, 0])}, r"finite confidences .*but got 1e\+99 for 'a'"),
        ({"id": IDS, "maps": TWO, "bounds": np.zeros(3)}, "Expected bounds as two numbers"),
        ({"id": IDS, "maps": TWO, "bounds": IDS}, "Expected bounds as two numbers"),
        ({"a": ONE.astype(object)}, "Expected numbers for 'a' .*but got Python objects, which could run code"),
        ({"a": np.zeros((2, 2), [("x", "f4")])}, "Expected numbers of up to 64 bits for 'a'"),
    ],
)
def test_arrays_of_another_kind_are_refused(arrays: dict[str, Any], told: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=told):
        read_all(tmp_path / "x.npz")


@pytest.mark.parametrize("name", ["../a.npy", "a/../../b.npy", "/etc/a.npy", "a.txt", "folder/"])
def test_names_that_numpy_would_not_write_are_refused(name: str, tmp_path: Path) -> None:
    archive(tmp_path / "x.npz", [(name, npy(ONE))])
    with pytest.raises(
        DataError, match=r"Expected arrays named after clips in .*, but got '.*Make the file with np.sav"
    ):
        open_maps(tmp_path / "x.npz")


def test_dots_inside_an_id_are_no_way_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **{"a..b": ONE, "...": ONE, "c.npy": ONE})  # type: ignore[arg-type]
    assert open_maps(tmp_path / "x.npz").ids == ("a..b", "...", "c.npy")


def test_an_id_that_is_there_twice_stays_twice(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"Duplicate name"):
        archive(tmp_path / "members.npz", [("a.npy", npy(ONE)), ("a.npy", npy(ONE + 1))])
    np.savez(tmp_path / "table.npz", id=np.array(["a", "a"]), maps=TWO)
    for name in ("members.npz", "table.npz"):
        assert open_maps(tmp_path / name).ids == ("a", "a")
    ((_, maps),) = open_maps(tmp_path / "members.npz").batches()
    assert maps.dense[:, 0, 0].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["id", "maps"])
def test_two_arrays_of_a_table_under_one_name_are_refused(name: str, tmp_path: Path) -> None:
    members = [("id.npy", npy(IDS)), ("maps.npy", npy(TWO))]
    with pytest.warns(UserWarning, match=r"Duplicate name"):
        archive(tmp_path / "x.npz", [*members, *(m for m in members if m[0] == f"{name}.npy")])
    with pytest.raises(DataError, match=f"Expected one array '{name}' in .*, but got 2. Make it again"):
        open_maps(tmp_path / "x.npz")


def test_many_arrays_under_one_name_are_refused_at_once(tmp_path: Path) -> None:
    names = ["id", "maps"] * 20_000  # by counting each of them among all it took ten seconds
    began = time.monotonic()
    with pytest.raises(DataError, match=r"Expected one array 'id' in .*, but got 20000\. Make it again"):
        need_once(names, tmp_path)
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(how: int, tmp_path: Path) -> None:
    archive(tmp_path / "x.npz", [("a.npy", npy(ONE))], how)
    with pytest.raises(DataError, match=r"Expected arrays stored or deflated in .*'a.npy' packed or locked"):
        open_maps(tmp_path / "x.npz")


def test_a_locked_archive_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.npz", [("a.npy", npy(ONE))])
    data = bytearray(path.read_bytes())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"packed or locked in another way"):
        open_maps(path)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (8000, 8000), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, -3), }",
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**40}, {10**40}), }}",
    ],
)
@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_shapes_that_do_not_fit_the_bytes_are_refused(header: str, how: int, tmp_path: Path) -> None:
    for name in ("a", "maps"):
        data = with_header(header, bytes(36))
        first = ("id.npy", npy(IDS)) if name == "maps" else ("b.npy", npy(ONE))
        archive(tmp_path / "x.npz", [first, (f"{name}.npy", data)], how)
        with pytest.raises(DataError, match=r"to hold what it declares .*but got 36 bytes of values"):
            for _ in open_maps(tmp_path / "x.npz").batches([1]):
                pass


@pytest.mark.parametrize(
    "header",
    [
        "",
        "{",
        "[" * 900,
        "{[]: 1}",
        "{1: 2, 'a': 3}",
        "__import__('os').system('true')",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3, }",
        "{'descr': '<f4', 'fortran_order': 7, 'shape': (3, 3), }",
        "{'descr': 'nonsense', 'fortran_order': False, 'shape': (3, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 3), " + "'x': 1, " * 3000 + "}",
    ],
)
def test_made_up_headers_are_told_as_damage(header: str, tmp_path: Path) -> None:
    archive(tmp_path / "x.npz", [("a.npy", with_header(header, bytes(36)))])
    with pytest.raises(DataError, match=r"Expected a whole file of maps, but got a damaged one: .*Make it again"):
        read_all(tmp_path / "x.npz")


def test_nobody_is_advised_to_trust_a_file_with_a_long_header(tmp_path: Path) -> None:
    header = "{'descr':'<f4','fortran_order':False,'shape':" + "(" * 6000 + ")" * 6000 + "}"
    with pytest.raises(DataError, match=r"damaged one: .*a\.npz \(a header that is too long\)\. Make it again"):
        list(open_maps(archive(tmp_path / "a.npz", [("a.npy", with_header(header))])).batches())


def test_no_cut_or_flipped_byte_ends_in_anything_but_a_told_error(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name, save in (("stored", np.savez), ("packed", np.savez_compressed)):
        path = tmp_path / f"{name}.npz"
        save(path, id=IDS, maps=random.normal(size=TWO.shape), bounds=np.array([-9, 9]))
        hurt.cut(path, read_all, every=13)
        assert hurt.flipped(path, read_all, times=150) > 40


def test_a_map_whose_bytes_were_changed_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, id=IDS, maps=np.full((2, 3, 3), 0.123, np.float32))
    value = np.float32(0.123).tobytes()
    path.write_bytes(path.read_bytes().replace(value, np.float32(0.456).tobytes(), 1))
    with pytest.raises(DataError, match=r"Bad CRC-32"):
        read_all(path)


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = 64 << 20  # zeros that pack to 64 kB
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as file, file.open("a.npy", "w") as member:
        member.write(with_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': (1, {big // 4}), }}"))
        for _ in range(64):
            member.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"Expected a map .*but got shape \(1, 16777216\)"):
            read_all(tmp_path / "x.npz")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    monkeypatch.setattr(arrays, "TOTAL", 1 << 20)
    with pytest.raises(DataError, match=r"GiB of arrays in .* when unpacked. Save maps of a lower resolution"):
        open_maps(tmp_path / "x.npz")


def test_too_many_or_too_long_ids_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "x.npz", id=IDS, maps=TWO)
    monkeypatch.setattr(mapfile, "MOST", 1)
    with pytest.raises(DataError, match=r"Expected at most 1 maps in .*, but got 2. Use several files"):
        open_maps(tmp_path / "x.npz")
    monkeypatch.setattr(arrays, "SMALL", 100)
    with pytest.raises(DataError, match=r"Expected at most 0 MiB for id in"):
        open_maps(tmp_path / "x.npz")


def test_ids_without_letters_or_outside_unicode_are_told_as_damage(tmp_path: Path) -> None:
    none = with_header("{'descr': '<U0', 'fortran_order': False, 'shape': (2,), }")
    archive(tmp_path / "x.npz", [("id.npy", none), ("maps.npy", npy(TWO))])
    with pytest.raises(DataError, match=r"but got a damaged one"):
        open_maps(tmp_path / "x.npz")
    far = with_header("{'descr': '<U1', 'fortran_order': False, 'shape': (2,), }", b"\xff" * 8)
    archive(tmp_path / "y.npz", [("id.npy", far), ("maps.npy", npy(TWO))])
    with pytest.raises(DataError, match=r"but got a damaged one"):
        open_maps(tmp_path / "y.npz")


@pytest.mark.parametrize(
    ("values", "told"), [([1.0, 0.0], r"\[1\.0, 0\.0\]"), ([0.0, 1.0, 2.0], r"\[0\.0, 1\.0, 2\.0\]")]
)
def test_wrong_bounds_are_told_as_they_are(tmp_path: Path, values: list[float], told: str) -> None:
    np.savez(tmp_path / "x.npz", id=IDS, maps=TWO, bounds=np.array(values))
    with pytest.raises(DataError, match=rf"Expected bounds as two numbers in .*, the lower first, but got {told}"):
        open_maps(tmp_path / "x.npz")


def test_arrays_without_their_names_are_told_how_to_save_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", IDS, TWO)
    with pytest.raises(DataError, match=r"Expected arrays `id` and `maps` in .*, but got arr_0, arr_1\. Save it with"):
        open_maps(tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", id=IDS, heat=TWO)
    with pytest.raises(DataError, match=r"Expected arrays `id` and `maps` in .*, but got id, heat\."):
        open_maps(tmp_path / "y.npz")


@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 1, 3, 3)])
def test_a_table_under_other_names_is_told_which_are_expected(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.savez(tmp_path / "a.npz", ids=IDS, heatmaps=np.zeros(shape, np.float32))
    with pytest.raises(DataError, match=r"Expected arrays `id` and `maps` in .*, but got ids, heatmaps\. Save it with"):
        open_maps(tmp_path / "a.npz")


def test_a_few_clips_with_bounds_are_no_table(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", ids=ONE, maps=ONE, __bounds__=np.array([0.0, 1.0]))
    assert open_maps(tmp_path / "a.npz").ids == ("ids", "maps")
