"""Makes small trees in the layouts of COCO and ESC-50, or one folder of coco_esc, that fit the lists of earsight."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from earsight.data.coco import lists
from earsight.data.packing import encode_jpeg
from earsight.media.write import write_wav

RATE = 2000
WIDTH, HEIGHT = 640, 480
CATEGORIES = {**{name: 2 * i + 1 for i, name in enumerate(lists.CLASSES)}, "zebra": 90}
LISTS = ("train", "val", "test")


def seen(pair: lists.Pair) -> tuple[str, ...]:
    """The classes that must have boxes in the photo of a pair."""
    return pair.visible or ((pair.label,) if pair.kind in lists.SEEN else ())


def marked() -> list[tuple[str, str]]:
    """Every photo and class that needs boxes."""
    return sorted({(pair.photo, label) for name in LISTS for pair in lists.pairs(name) for label in seen(pair)})


def bbox(photo: str) -> list[float]:
    """A box in pixels, another for every photo."""
    return [float(int(photo) % 300), float(int(photo) % 200), 320.0, 240.0]


def photo_bytes(photo: str) -> bytes:
    """A small JPEG of one colour; photos have one of sixteen."""
    shade = int(photo) % 16 * 16
    return encode_jpeg(np.full((3, 12, 16), shade, np.uint8), 90)


def put_photos(folder: Path, names: Iterable[str]) -> None:
    made = {shade: photo_bytes(str(shade)) for shade in range(16)}
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.jpg").write_bytes(made[int(name) % 16])


def put_sounds(folder: Path, names: Iterable[str]) -> None:
    """Five seconds of noise each, of four different ones."""
    folder.mkdir(parents=True)
    made = []
    for i in range(4):
        path = folder / f"made{i}.wav"
        write_wav(path, np.random.default_rng(i).uniform(-0.5, 0.5, 5 * RATE).astype(np.float32), RATE)
        made.append(path.read_bytes())
        path.unlink()
    for i, name in enumerate(names):
        (folder / f"{name}.wav").write_bytes(made[i % 4])


def instances() -> dict[str, object]:
    """What COCO's instances file would say of the photos of all lists, and of one more."""
    names = [name for one in LISTS for name in lists.photos(one)]
    images = [{"id": int(name), "file_name": f"{name}.jpg", "width": WIDTH, "height": HEIGHT} for name in names]
    boxes = [(int(photo), CATEGORIES[label], bbox(photo)) for photo, label in marked()]
    boxes += [(int(name), CATEGORIES["zebra"], [0.0, 0.0, 9.0, 9.0]) for name in names]
    boxes += [(1, CATEGORIES["dog"], [0.0, 0.0, 9.0, 9.0])]
    keys = ("image_id", "category_id", "bbox")
    return {
        "info": {"year": 2017, "note": 'with ] and } and "quotes"'},
        "licenses": [],
        "images": [*images, {"id": 1, "file_name": "1.jpg", "width": 9, "height": 9}],
        "annotations": [dict(zip(keys, box, strict=True)) | {"id": i, "iscrowd": i % 2} for i, box in enumerate(boxes)],
        "categories": [{"id": number, "name": name} for name, number in CATEGORIES.items()],
    }


def official(root: Path, only: Iterable[str] = LISTS) -> tuple[Path, Path]:
    """COCO and ESC-50 with everything the lists name; photos and sounds of the lists `only`."""
    coco, esc50 = root / "coco", root / "ESC-50"
    (coco / "annotations").mkdir(parents=True)
    (coco / "annotations" / "instances_train2017.json").write_text(json.dumps(instances()))
    put_photos(coco / "train2017", [name for one in only for name in lists.photos(one)])
    (esc50 / "meta").mkdir(parents=True)
    known = lists.sounds().values()
    lines = [f"{sound.name}.wav,{lists.FOLDS[sound.list][-1]},0,{sound.category},False,1,A" for sound in known]
    text = "filename,fold,target,category,esc10,src_file,take\n" + "\n".join(
        [*lines, "1-1-A-1.wav,1,1,rooster,False,1,A"]
    )
    (esc50 / "meta" / "esc50.csv").write_text(text)
    put_sounds(esc50 / "audio", [sound.name for sound in known if sound.list in only])
    return coco, esc50


def folder(root: Path, only: Iterable[str] = LISTS) -> Path:
    """The same in one folder with boxes.csv."""
    put_photos(root / "images", [name for one in only for name in lists.photos(one)])
    put_sounds(root / "audio", [sound.name for sound in lists.sounds().values() if sound.list in only])
    lines = ["image,cls,xc,yc,w,h"]
    for photo, label in marked():
        x, y, w, h = bbox(photo)
        values = ((x + w / 2) / WIDTH, (y + h / 2) / HEIGHT, w / WIDTH, h / HEIGHT)
        lines.append(f"images/{photo}.jpg,{label}," + ",".join(f"{value:.5f}" for value in values))
    (root / "boxes.csv").write_text("\n".join(lines) + "\n")
    return root
