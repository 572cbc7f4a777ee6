"""The inputs of a function: the user's arrays, or arrays generated to suit the use of each parameter.

``given`` matches arrays with parameters, ``archive`` reads them from an .npz file, ``stacked`` splits one
array into several inputs, ``uses`` infers the use of each parameter, ``made`` generates arrays.
"""

from annotated_region.inputs.archive import read_arrays, write_arrays
from annotated_region.inputs.given import Arguments, arguments_for
from annotated_region.inputs.stacked import inputs_in_stack

__all__ = ["Arguments", "arguments_for", "inputs_in_stack", "read_arrays", "write_arrays"]
