from recveil.core.errors import DataError, MissingExtra, RecveilError, TrainingError, UsageError, unknown_name


def test_an_unknown_name_is_answered_with_the_nearest_and_all_known() -> None:
    error = unknown_name("model", "lightgnc", ["lightgcn", "bprmf"])
    assert str(error) == "No model is called 'lightgnc'. Did you mean 'lightgcn'? Known: bprmf, lightgcn."


def test_a_name_like_nothing_gets_no_guess() -> None:
    assert "Did you mean" not in str(unknown_name("model", "zzz", ["lightgcn"]))


def test_exit_codes_are_those_of_the_design() -> None:
    codes = {kind: kind("x").exit_code for kind in (RecveilError, UsageError, DataError, TrainingError, MissingExtra)}
    assert codes == {RecveilError: 70, UsageError: 2, DataError: 3, TrainingError: 3, MissingExtra: 2}


def test_wrong_arguments_and_data_are_value_errors_to_everybody_else() -> None:
    assert issubclass(UsageError, ValueError)
    assert issubclass(DataError, ValueError)
    assert not issubclass(TrainingError, ValueError)
