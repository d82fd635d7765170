"""Image sets in Parquet files, as the Hugging Face hub has them, to files and lists that `fedgrab run --data list` reads.

    python -m fedgrab.parquet SOURCE FOLDER [--group COLUMN] [--client COLUMN]

SOURCE is a Parquet file or a folder of them; FOLDER receives `images/` and the lists. Files called train-*, validation-* and test-* become
train.csv, val.csv and test.csv. Where there is no test part, validation is tested on; one part alone becomes all.csv, which fedgrab splits.
Needs pyarrow (`pip install pyarrow`).
"""

import argparse
import csv
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

PARTS = {"train": "train", "training": "train", "validation": "val", "valid": "val", "val": "val", "dev": "val", "test": "test"}
ENDINGS = {b"\x89PNG": ".png", b"\xff\xd8": ".jpg", b"II*\0": ".tif", b"MM\0*": ".tif", b"RIFF": ".webp"}
IMAGES = ("image", "img", "images", "pixel_values")
LABELS = ("label", "labels", "class", "target", "fine_label")


class ConversionError(Exception):
    """What cannot be converted, and why."""


class Columns(NamedTuple):
    image: str
    label: str
    group: str | None
    client: str | None

    def named(self) -> list[str]:
        return [name for name in self if name]


def convert(source: str | pathlib.Path, folder: str | pathlib.Path, *, image: str | None = None, label: str | None = None,
            group: str | None = None, client: str | None = None) -> dict[str, int]:
    """Writes the images and lists; gives back the number of images by list. Columns that are not named are found by their usual names."""
    folder = pathlib.Path(folder)
    parts = find_parts(pathlib.Path(source))
    if (folder / "images").exists():
        raise ConversionError(f"{folder / 'images'}: exists already (choose another folder)")
    counts = {}
    for part, files in parts.items():
        target = folder / "images" / part
        target.mkdir(parents=True)
        with open(folder / f"{part}.csv", "w", encoding="utf-8", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(["path", "label"] + ["group"] * bool(group) + ["client"] * bool(client))
            number = 0
            for content, values in rows(files, image, label, group, client):
                path = target / f"{number:07}{ending_of(content, number, files)}"
                path.write_bytes(content)
                table.writerow([path.relative_to(folder).as_posix(), *values])
                number += 1
        counts[f"{part}.csv"] = number
    return counts


def find_parts(source: pathlib.Path) -> dict[str, list[pathlib.Path]]:
    """Files by the list that they go into."""
    files = sorted(source.rglob("*.parquet")) if source.is_dir() else [source]
    if not files or not files[0].is_file():
        raise ConversionError(f"{source}: holds no .parquet file")
    if len({file.parent for file in files}) > 1:
        raise ConversionError(f"{source}: holds Parquet files in several folders (name one of them)")
    parts: dict[str, list[pathlib.Path]] = {}
    for file in files:
        parts.setdefault(PARTS.get(file.stem.split("-")[0].lower(), "train"), []).append(file)
    if len(parts) == 1:
        return {"all": files}
    if "test" not in parts:
        parts["test"] = parts.pop("val")
    if "train" not in parts:
        raise ConversionError(f"{source}: holds no file called train-….parquet")
    return parts


def rows(files: list[pathlib.Path], image: str | None, label: str | None, group: str | None,
         client: str | None) -> Iterator[tuple[bytes, list[str]]]:
    """The bytes of each image, and its label, group and client."""
    import pyarrow.parquet

    for file in files:
        table = pyarrow.parquet.ParquetFile(file)
        schema = table.schema_arrow
        columns = Columns(pick(file, schema.names, image, IMAGES, "image"), pick(file, schema.names, label, LABELS, "label"),
                          group and pick(file, schema.names, group, (), "group"), client and pick(file, schema.names, client, (), "client"))
        names = class_names(schema.metadata or {}, columns.label)
        for batch in table.iter_batches(batch_size=64, columns=columns.named()):
            for row in batch.to_pylist():
                yield content_of(row[columns.image], file), [text_of(row, columns.label, file, names),
                                                             *(text_of(row, name, file) for name in (columns.group, columns.client) if name)]


def pick(file: pathlib.Path, names: list[str], wanted: str | None, usual: tuple[str, ...], what: str) -> str:
    """The column that is asked for, else one of the usual names."""
    found = [name for name in ([wanted] if wanted else usual) if name in names]
    if not found:
        raise ConversionError(f"{file}: has no column {wanted or ' or '.join(usual)} (name it with --{what}: {', '.join(names)})")
    return found[0]


def class_names(metadata: dict[bytes, bytes], label: str) -> list[str]:
    """Those of a Hugging Face ClassLabel; none elsewhere."""
    features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    names = features.get(label, {}).get("names", [])
    return names if isinstance(names, list) else list(names.values())


def content_of(cell: Any, file: pathlib.Path) -> bytes:
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if not isinstance(content, bytes):
        raise ConversionError(f"{file}: the image column holds no encoded images (save them with their bytes embedded)")
    return content


def text_of(row: dict[str, Any], column: str, file: pathlib.Path, names: list[str] | None = None) -> str:
    value = row[column]
    if not isinstance(value, int | str) or value == "":
        raise ConversionError(f"{file}: column {column} holds {value!r} (expected a whole number or a text in every row)")
    if names and isinstance(value, int):
        if not 0 <= value < len(names):
            raise ConversionError(f"{file}: column {column} holds {value}, but there are {len(names)} classes")
        return names[value]
    return str(value)


def ending_of(content: bytes, number: int, files: list[pathlib.Path]) -> str:
    for magic, ending in ENDINGS.items():
        if content.startswith(magic):
            return ending
    raise ConversionError(f"{files[0].parent}: image {number} is not a PNG, JPEG, TIFF or WebP")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fedgrab.parquet", description=__doc__.split("\n")[0])
    parser.add_argument("source", help="Parquet file, or a folder of them")
    parser.add_argument("folder", help="where the images and lists go")
    for name, text in (("image", "column of the images"), ("label", "column of the classes"),
                       ("group", "column that says which images belong together, a patient say"), ("client", "column of the client")):
        parser.add_argument(f"--{name}", metavar="COLUMN", help=text)
    arguments = vars(parser.parse_args())
    try:
        import pyarrow  # noqa: F401
        counts = convert(arguments.pop("source"), folder := arguments.pop("folder"), **arguments)
    except ImportError:
        sys.exit("fedgrab: error: pyarrow: is not installed (pip install pyarrow)")
    except (ConversionError, OSError, ValueError) as error:  # pyarrow's errors are kinds of ValueError
        print(f"fedgrab: error: {error}", file=sys.stderr)
        sys.exit(3)
    path = f"{folder}/all.csv" if "all.csv" in counts else folder
    print(f"{', '.join(f'{name}: {count} images' for name, count in counts.items())} "
          f"(next: fedgrab data check --data list --data-path {path})")


if __name__ == "__main__":
    main()
