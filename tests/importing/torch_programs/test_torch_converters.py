"""Ops that TVM's importer converts to something else than PyTorch computes, or refuses: PyTorch's numbers."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import external_functions, needs_onednn, ops_on_host
from tvm import relax

import annotated_region as ar

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

SIZES = ((2, 7), (1, 5), (3, 12))
GROUPS = (
    "arithmetic",
    "indexing",
    "slices",
    "views",
    "scatters",
    "reductions",
    "numbers",
    "special",
    "selections",
)
REFUSED = {
    "antialiasing between corners": r"_upsample_bilinear2d_aa\.default \(.*\): antialias=True with align",
    "an op without converter": r"^no converter for digamma\.default \(Each \(.*\.py:\d+\)\); pass one",
    "truth values as an index": r"^index\.Tensor \(.*\): how many elements truth values select depends",
    "quotients of selected whole numbers": r"index\.Tensor \(.*\): how many elements truth values select",
    "selected rows beside others": r"index\.Tensor \(.*\): how many elements truth values select depends",
    "places of maxima": r"adaptive_max_pool2d\.default \(.*\): return_indices=True is not supported",
    "a reduction into a scalar": r"scatter_reduce\.two \(.*\): it is not supported with these arguments",
    "a sorter": r"searchsorted\.Tensor \(.*\): a sorter is not supported; sort the rows",
    "bits that are moved away": r"__rshift__\.Scalar \(.*\): moving 64 bits by 64 places is not supported",
    "blended bytes": r"upsample_bilinear2d\.vec \(.*\): blended images of uint8 are not supported",
    "smoothed bytes": r"_upsample_bilinear2d_aa\.default \(.*\): blended images of uint8 are not supported",
    "memory beside a view": r"as_strided\.default \(.*\): it may read memory beside its operand",
    "memory behind a view": r"as_strided\.default \(.*\): it may read memory beside its operand",
    "an effect": r"^no converter for linalg_inv_ex\.default \(.*\), with_effects \(.*\); pass one",
    "random places": r"randint\.low \(.*\): its result is random",
    "random numbers": r"randn_like\.default \(.*\): its result is random",
    "branches": r"^cond \(.*\): branches of torch\.cond are imported only where .* torch\.where",
}


def assert_as_in_torch(kit: ModuleType, group, calls, free, target):
    """Each function's results are those of PyTorch, in each call; only the axes in `free` are symbolic."""
    functions, dynamic = kit.GROUPS[group], kit.torch.export.Dim.DYNAMIC
    model = kit.Each(list(functions.values())).eval()
    shapes = (dict.fromkeys(free, dynamic),)
    program = kit.torch.export.export(model, (calls[0],), dynamic_shapes=shapes, strict=False)
    module = ar.from_exported_program(program)
    built = ar.build(ar.partition(module, [target]) if target else module)
    machine = relax.VirtualMachine(built.jit(), tvm.cpu())
    names = kit.flat([(name,) * len(kit.flat([functions[name](calls[0])])) for name in functions])
    for call in calls:
        found = machine["main"](tvm.runtime.tensor(call.numpy()))
        for name, answer, expected in zip(names, found, model(call), strict=True):
            message = f"{name} of {tuple(call.shape)}"
            assert answer.numpy().dtype == expected.numpy().dtype, message
            np.testing.assert_allclose(answer.numpy(), expected.numpy(), 2e-5, 2e-5, err_msg=message)


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn)])
@pytest.mark.parametrize("group", GROUPS)
def test_results_are_those_of_torch(torch_functions, group, target):
    calls = [torch_functions.seeded(*size, torch_functions.WIDTH) for size in SIZES]
    assert_as_in_torch(torch_functions, group, calls, (0, 1), target)


@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn)])
def test_parts_are_those_of_torch(torch_functions, target):
    """PyTorch squeezes axes of one element, and halves those of one to one part; a program does not."""
    calls = [torch_functions.seeded(*size, torch_functions.WIDTH) for size in ((3, 7), (4, 12))]
    assert_as_in_torch(torch_functions, "parts", calls, (0, 1), target)


@pytest.mark.parametrize("group", ["slices", "views"])
def test_onnx_runtime_answers_as_torch(torch_functions, group):
    calls = [torch_functions.seeded(*size, torch_functions.WIDTH) for size in SIZES]
    assert_as_in_torch(torch_functions, group, calls, (0, 1), "onnxruntime")


@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn), "onnxruntime"])
def test_images_are_those_of_torch(torch_functions, target):
    calls = [torch_functions.seeded(batch, 3, 12, 14) for batch in (2, 1)]
    assert_as_in_torch(torch_functions, "images", calls, (0,), target)


@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn), "onnxruntime"])
def test_images_of_any_size_are_resized_as_in_torch(torch_functions, target):
    calls = [
        torch_functions.seeded(batch, 3, *size) for batch, size in ((2, (12, 14)), (1, (5, 8)), (3, (16, 4)))
    ]
    assert_as_in_torch(torch_functions, "sizes", calls, (0, 2, 3), target)


@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn)])
def test_norms_are_those_of_torch(torch_functions, target):
    """Of a batch that is known, and of any."""
    calls = [torch_functions.seeded(batch, 3, 12, 14) for batch in (2, 3)]
    assert_as_in_torch(torch_functions, "norms", calls, (0,), target)
    assert_as_in_torch(torch_functions, "norms", calls[:1], (), target)


@needs_onednn
def test_images_of_other_sizes_are_resized_in_one_region(torch_functions):
    names = (
        "means of parts",
        "nearest, smaller",
        "nearest, not by whole factors",
        "smoothed",
        "means between corners",
    )
    model = torch_functions.Each([torch_functions.IMAGES[name] for name in names])
    program = torch_functions.torch.export.export(model, (torch_functions.seeded(2, 3, 12, 14),))
    assert not ops_on_host(ar.partition(ar.from_exported_program(program), ["dnnl"]), "main")


@needs_onednn
def test_slices_with_steps_are_assigned_in_one_region(torch_functions):
    model = torch_functions.Each([torch_functions.GROUPS["slices"]["assigned by steps"]])
    shapes = (dict.fromkeys((0, 1), torch_functions.torch.export.Dim.DYNAMIC),)
    example = torch_functions.seeded(2, 7, torch_functions.WIDTH)
    program = torch_functions.torch.export.export(model, (example,), dynamic_shapes=shapes)
    assert not ops_on_host(ar.partition(ar.from_exported_program(program), ["dnnl"]), "main")


@needs_onednn
def test_places_among_few_bounds_are_found_in_one_region(torch_functions):
    torch = torch_functions.torch
    model = torch_functions.Each([lambda x: torch.bucketize(x, torch.arange(8.0) * 0.4 - 1)])
    program = torch.export.export(model, (torch_functions.seeded(2, 7, torch_functions.WIDTH),))
    assert not ops_on_host(ar.partition(ar.from_exported_program(program), ["dnnl"]), "main")


@needs_onednn
def test_images_of_any_size_are_resized_in_one_region(torch_functions):
    functions, free = list(torch_functions.SIZES.values()), torch_functions.torch.export.Dim.DYNAMIC
    program = torch_functions.torch.export.export(
        torch_functions.Each(functions),
        (torch_functions.seeded(2, 3, 12, 14),),
        dynamic_shapes=(dict.fromkeys((0, 2, 3), free),),
        strict=False,
    )
    assert not ops_on_host(ar.partition(ar.from_exported_program(program), ["dnnl"]), "main")


@needs_onednn
def test_weights_that_a_module_unpacks_stay_packed(torch_functions):
    torch = torch_functions.torch
    packed = importlib.import_module("kits.importing.torch_packed_linear")
    model = packed.PackedLinear(256, 192, 32).eval()
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(model, (torch_functions.seeded(3, 256),), dynamic_shapes=shapes)
    module = ar.partition(ar.from_exported_program(program), ["dnnl"])
    (region,) = external_functions(module)
    assert not ops_on_host(module, "main")
    assert not ops_on_host(module, region) & {"right_shift", "bitwise_and"}
    assert "dequantize" in ops_on_host(module, region)
    machine = relax.VirtualMachine(ar.build(module).jit(), tvm.cpu())
    for rows in (3, 1, 40):
        x = torch_functions.seeded(rows, 256)
        (found,) = machine["main"](tvm.runtime.tensor(x.numpy()))
        np.testing.assert_allclose(found.numpy(), model(x).numpy(), 1e-5, 1e-5)


def test_all_groups_are_tried(torch_functions):
    assert {*GROUPS, "images", "norms", "parts", "sizes"} == set(torch_functions.GROUPS)
    assert set(REFUSED) == set(torch_functions.REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_imported_is_named(torch_functions, name):
    model = torch_functions.Each([torch_functions.REFUSED[name]])
    program = torch_functions.torch.export.export(model, (torch_functions.seeded(2, 7, 8),))
    with pytest.raises(ar.ModelError, match=REFUSED[name]):
        ar.from_exported_program(program)


def test_what_pytorch_cannot_decompose_is_named(torch_functions, monkeypatch):
    """What fails differs with PyTorch's releases (`resize_`, in 2.14), so it is made to fail."""
    torch = torch_functions.torch
    program = torch.export.export(torch.nn.ReLU(), (torch_functions.seeded(5, 5),))

    def fail():
        raise RuntimeError("no storage_offset")

    monkeypatch.setattr(program, "run_decompositions", fail)
    with pytest.raises(ar.ModelError, match="PyTorch cannot decompose the program: no storage_offset"):
        ar.from_exported_program(program)


def test_an_axis_that_turns_out_to_be_static_is_static(torch_functions):
    """PyTorch's exporter leaves a symbol with the value 2 there."""
    torch = torch_functions.torch
    rows = torch.nn.Module()
    rows.forward = lambda x: torch.cat([x, torch.ones(2, 3)], 1).sum(1) + torch.ones(2)
    x, automatic = torch_functions.seeded(2, 5), torch.export.Dim.AUTO
    program = torch.export.export(rows, (x,), dynamic_shapes=({0: automatic, 1: automatic},), strict=False)
    main = ar.from_exported_program(program)["main"]
    assert main.params[0].ty.shape.values[0] == 2
    assert [int(each) for each in main.ret_ty.fields[0].shape.values] == [2]


@pytest.mark.parametrize("part", ["a half", "0.5 times", "the root"])
def test_a_program_of_rounded_extents_is_called_with_those_alone(torch_functions, part):
    """PyTorch records how many rows there were, and a guard."""
    torch = torch_functions.torch
    counted = {
        "a half": lambda n: int(n / 2),
        "0.5 times": lambda n: int(n * 0.5),
        "the root": lambda n: int(n**0.5) + 1,
    }[part]
    rows = torch.nn.Module()
    rows.forward = lambda x: x[: counted(x.shape[0])] * 2
    program = torch.export.export(
        rows, (torch_functions.seeded(9, 5),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), strict=False
    )
    machine = relax.VirtualMachine(ar.build(ar.from_exported_program(program)).jit(), tvm.cpu())
    for extent in range(6, 18):
        x = torch_functions.seeded(extent, 5)
        if counted(extent) == 4:
            (found,) = machine["main"](tvm.runtime.tensor(x.numpy()))
            np.testing.assert_array_equal(found.numpy(), rows(x).numpy())
        else:
            with pytest.raises(ValueError, match="extents for which its model is not defined"):
                machine["main"](tvm.runtime.tensor(x.numpy()))


def test_an_extent_with_gaps_is_no_range(torch_functions):
    """Blocks of rows, as Pegasus-X has them; the guard divides by 0 where there are 3 rows."""
    torch = torch_functions.torch
    blocks = torch.nn.Module()
    blocks.forward = lambda x: x.view(x.shape[0] // 4, -1, 5).sum(1)
    program = torch.export.export(
        blocks, (torch_functions.seeded(8, 5),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), strict=False
    )
    machine = relax.VirtualMachine(ar.build(ar.from_exported_program(program)).jit(), tvm.cpu())
    for extent in (8, 12, 40):
        x = torch_functions.seeded(extent, 5)
        (found,) = machine["main"](tvm.runtime.tensor(x.numpy()))
        np.testing.assert_allclose(found.numpy(), blocks(x).numpy(), 1e-5, 1e-5)
