"""The folder of a run: made new each time, and nothing removed that is not the demo's."""

from pathlib import Path

import pytest

from demo.places import Places, Unusable, make_spark_home


def test_what_an_earlier_run_left_is_replaced_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    with Places.made_new(tmp_path / "out") as places:
        places.broker_data.mkdir()
        places.result.mkdir()
        places.picture.touch()
    foreign = tmp_path / "out" / "notes.txt"
    foreign.touch()
    assert sorted(tmp_path.glob("out/*")) == sorted([places.picture, places.result, foreign])
    with Places.made_new(tmp_path / "out") as places:
        assert sorted(tmp_path.glob("out/*")) == sorted([places.work, foreign])


def test_two_demos_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with Places.made_new(tmp_path), pytest.raises(Unusable, match="Another demo"), Places.made_new(tmp_path):
        pass
    with Places.made_new(tmp_path):
        pass


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(Unusable, match=r"Cannot write into \S+/file/out: Not a directory"),
        Places.made_new(tmp_path / "file" / "out"),
    ):
        pass


def test_what_the_user_has_set_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "mine")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xmx2g")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    environment = Places(tmp_path).environment()
    assert environment["SPARK_CONF_DIR"] == "mine"
    assert environment["JDK_JAVA_OPTIONS"].endswith(" -Xmx2g")
    assert environment["PYSPARK_PYTHON"]


def test_spark_s_processes_import_the_modules_that_are_installed(tmp_path: Path) -> None:
    home = make_spark_home(tmp_path / "spark")
    assert (home / "bin" / "spark-submit").is_file()
    assert list(home.glob("jars/spark-core_*.jar"))
    assert not list(home.glob("python/lib/*.zip"))
