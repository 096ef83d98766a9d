"""A model folder is itself; what cannot be had is one line. The fetched model is tested where it is present."""

from pathlib import Path

import pytest

from strop.core.errors import DataError
from strop.storage.models import get_model


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert get_model(str(tmp_path)) == tmp_path


def test_a_known_model_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "smollm2-135m-instruct").mkdir()
    assert get_model("smollm2-135m-instruct", tmp_path) == tmp_path / "smollm2-135m-instruct"


def test_no_folder_and_no_id(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder, no hub id and no known name") as caught:
        get_model(str(tmp_path / "missing"))
    assert "\n" not in str(caught.value)


@pytest.mark.model
def test_the_converted_tokenizer_reads_digits_one_by_one() -> None:
    folder = Path("models") / "smollm2-135m-instruct"
    if not folder.is_dir():
        pytest.skip("needs the model that `make model` fetches")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.tokenize("a\n\n12") == ["a", "ĊĊ", "1", "2"]
    assert tokenizer("<|im_start|>user\nhi<|im_end|>")["input_ids"] == [1, 4093, 198, 6004, 2]
    assert (tokenizer.eos_token_id, tokenizer.model_max_length) == (2, 8192)
    assert tokenizer.chat_template
