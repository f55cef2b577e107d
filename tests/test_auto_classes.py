"""The auto classes of transformers know the model types after `import lengthwise` alone, in either order of imports."""

import copy
import pickle
import sys
import textwrap

import pytest
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from lengthwise import auto_classes, convert, models
from lengthwise.auto_classes import MODEL_TYPES, Later

LOAD = """
print(not any(name.startswith("lengthwise.models") for name in sys.modules))
from transformers import AutoConfig
for folder in sys.argv[1:]:
    loaded = AutoConfig.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    print(*(type(part).__name__ for part in loaded))
"""
ORDERS = {
    "lengthwise first": "import sys, lengthwise\nfrom transformers import AutoModelForCausalLM",
    "transformers first": "import sys\nfrom transformers import AutoModelForCausalLM\nimport lengthwise",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    own = models.LengthwiseForCausalLM(models.presets.lstm(5, width=8))
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=8, n_layer=1, n_head=2, attn_pdrop=0.0, bos_token_id=0))
    made = {"own": own, "chained": convert.to_chain(gpt2)}
    for name, model in made.items():
        model.save_pretrained(tmp_path_factory.getbasetemp() / name)
    return [str(tmp_path_factory.getbasetemp() / name) for name in made]


@pytest.mark.parametrize("order", ORDERS)
def test_a_folder_loads_by_the_auto_classes(order, folders, run_python):
    run = run_python(ORDERS[order] + LOAD, *folders, imported="torch")
    assert run.stdout.splitlines() == [
        "True",  # nothing was loaded before it was needed
        "LengthwiseConfig LengthwiseForCausalLM",
        "ChainGPT2Config ChainGPT2LMHeadModel",
    ], run.stderr[-2000:]


def test_every_model_type_is_announced():
    own = {t: kind for t, kind in CONFIG_MAPPING._extra_content.items() if kind.__module__.startswith("lengthwise.")}
    assert {t: (kind.__module__, kind.__name__) for t, kind in own.items()} == MODEL_TYPES
    assert all(kind.model_type == t for t, kind in own.items())


def test_a_stand_in_is_the_class_it_stands_for():
    later = Later(*MODEL_TYPES["lengthwise"])
    assert (later.model_type, later.__name__, later(width=8).width) == ("lengthwise", "LengthwiseConfig", 8)
    assert later.from_dict({"model_type": "lengthwise", "width": 8}).width == 8
    for again in (pickle.loads(pickle.dumps(later)), copy.deepcopy(later)):
        assert again.attribute_map == {"hidden_size": "width"}


def test_it_is_announced_again_where_the_registry_is_there(folders, monkeypatch):
    monkeypatch.setattr(CONFIG_MAPPING, "_extra_content", {})
    finders = list(sys.meta_path)
    auto_classes.announce()
    assert sys.meta_path == finders
    assert isinstance(AutoModelForCausalLM.from_pretrained(folders[0]), models.LengthwiseForCausalLM)


SMALL = """
import needed
class Mapping(dict):
    def register(self, key, value, exist_ok=False):
        self[key] = value
CONFIG_MAPPING = Mapping()
"""


@pytest.fixture
def small_transformers(tmp_path):
    """A folder with a package of that name that has a registry and nothing else, and is soon imported."""
    registry = tmp_path.joinpath(*auto_classes.REGISTRY.split(".")).with_suffix(".py")
    registry.parent.mkdir(parents=True)
    registry.write_text(SMALL)
    (tmp_path / "needed.py").touch()
    for folder in (registry.parent, *registry.parent.parents[:2]):
        (folder / "__init__.py").touch()
    return str(tmp_path)


KNOWN = """
CONFIG_MAPPING = importlib.import_module(REGISTRY).CONFIG_MAPPING
assert {t: CONFIG_MAPPING[t].__name__ for t in TYPES} == TYPES
assert not any(name.startswith("lengthwise.models") for name in sys.modules)
assert sum("lengthwise" in type(finder).__module__ for finder in sys.meta_path) == 1
"""
BEFORE = {
    "a reload": "import lengthwise\nimportlib.reload(lengthwise)",
    "a second import": """
        import lengthwise
        for name in [name for name in sys.modules if name.startswith("lengthwise")]:
            del sys.modules[name]
        import lengthwise
    """,
    "a look-up": """
        import lengthwise
        spec = importlib.util.find_spec(REGISTRY)
        assert "CONFIG_MAPPING" in spec.loader.get_source(REGISTRY)
        assert pickle.loads(pickle.dumps(spec)).origin == spec.origin
    """,
    "an import that failed": """
        import lengthwise
        sys.modules["needed"] = None
        try:
            importlib.import_module(REGISTRY)
        except ImportError:
            pass
        else:
            raise AssertionError
        del sys.modules["needed"]
        for name in [name for name in sys.modules if name.startswith("transformers")]:
            del sys.modules[name]
    """,
    "a failure of the registry itself": """
        import lengthwise
        from importlib.machinery import SourceFileLoader
        run = SourceFileLoader.exec_module
        def fail(self, module):
            if module.__name__ == REGISTRY:
                raise ImportError("once")
            run(self, module)
        SourceFileLoader.exec_module = fail
        try:
            importlib.import_module(REGISTRY)
        except ImportError as error:
            assert str(error) == "once"
        else:
            raise AssertionError
        SourceFileLoader.exec_module = run
    """,
    "an import in another thread": """
        import threading
        from importlib.machinery import SourceFileLoader
        run, half, go_on = SourceFileLoader.exec_module, threading.Event(), threading.Event()
        def slow(self, module):
            if module.__name__ == REGISTRY:
                half.set()
                go_on.wait(60)
            run(self, module)
        SourceFileLoader.exec_module = slow
        other = threading.Thread(target=importlib.import_module, args=(REGISTRY,))
        other.start()
        assert half.wait(60) and not hasattr(sys.modules[REGISTRY], "CONFIG_MAPPING")
        threading.Timer(0.2, go_on.set).start()
        import lengthwise
        other.join()
    """,
    "an import out of the registry": """
        from importlib.machinery import SourceFileLoader
        run = SourceFileLoader.exec_module
        def first_lengthwise(self, module):
            if module.__name__ == REGISTRY:
                import lengthwise
            run(self, module)
        SourceFileLoader.exec_module = first_lengthwise
        importlib.import_module(REGISTRY)
        SourceFileLoader.exec_module = run
        import lengthwise
        importlib.reload(lengthwise)
    """,
}


@pytest.mark.parametrize("before", BEFORE)
def test_the_types_are_known_whatever_was_before(before, small_transformers, run_python):
    start = f"""import importlib, importlib.util, pickle, sys
sys.path.insert(0, {small_transformers!r})
TYPES, REGISTRY = { ({t: n for t, (_, n) in MODEL_TYPES.items()})!r}, {auto_classes.REGISTRY!r}"""
    run = run_python(f"{start}\n{textwrap.dedent(BEFORE[before])}\n{KNOWN}", imported="torch")
    assert run.returncode == 0, run.stderr[-2000:]


def test_the_registry_is_a_module_like_any_other(run_python):
    code = """
        import importlib.resources, inspect, pickle
        import lengthwise, transformers.models.auto.configuration_auto as registry
        assert "CONFIG_MAPPING" in inspect.getsource(registry)
        assert type(registry.__loader__).__name__ == type(registry.__spec__.loader).__name__ == "SourceFileLoader"
        assert pickle.loads(pickle.dumps(registry.__spec__)).origin == registry.__file__
        assert importlib.resources.files(registry.__package__).joinpath("configuration_auto.py").is_file()
    """
    run = run_python(textwrap.dedent(code), imported="torch")
    assert run.returncode == 0, run.stderr[-2000:]
