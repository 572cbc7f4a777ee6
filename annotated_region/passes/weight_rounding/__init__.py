"""Float weights of products as packed integers: the arithmetic, and the ops that give the floats back."""
