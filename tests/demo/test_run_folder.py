"""The folder of a run: the demo makes it new each time, and removes only its own files."""

from pathlib import Path

import pytest

from demo.run_folder import RunFolder, Unusable


def test_files_of_an_earlier_run_are_replaced_and_other_files_stay(tmp_path: Path) -> None:
    with RunFolder.make_new(tmp_path / "out") as folder:
        folder.broker_data.mkdir()
        folder.result.mkdir()
        folder.picture.touch()
    foreign = tmp_path / "out" / "notes.txt"
    foreign.touch()
    assert sorted(tmp_path.glob("out/*")) == sorted([folder.picture, folder.result, foreign])
    with RunFolder.make_new(tmp_path / "out") as folder:
        assert sorted(tmp_path.glob("out/*")) == sorted([folder.work, foreign])


def test_two_demos_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with RunFolder.make_new(tmp_path), pytest.raises(Unusable, match="Another demo"), RunFolder.make_new(tmp_path):
        pass
    with RunFolder.make_new(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(Unusable, match=r"Cannot write into \S+/file/out: Not a directory"),
        RunFolder.make_new(tmp_path / "file" / "out"),
    ):
        pass


def test_settings_of_the_user_have_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "mine")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xmx2g")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    environment = RunFolder(tmp_path).environment()
    assert environment["SPARK_CONF_DIR"] == "mine"
    assert environment["JDK_JAVA_OPTIONS"].endswith(" -Xmx2g")
    assert environment["PYSPARK_PYTHON"]
