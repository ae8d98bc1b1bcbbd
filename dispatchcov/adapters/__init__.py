"""Tables of operators that are not ours, each with what gives their facts and their kernels for real arguments.

``sdpa`` and ``conv``: PyTorch's scaled_dot_product_attention and convolutions, on a CPU and on sm_90. ``ort_fp4``: ONNX
Runtime's FP4 matmul. None imports its library before it is asked for something, none changes the library.
"""
