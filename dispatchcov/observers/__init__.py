"""Who saw the kernel: what attests ``observed``. Nothing here is imported unless a run observes.

``join`` attributes what a profiler saw to the launches of decisions, by correlation ids; it is pure.
``torch_profiler`` runs
PyTorch's profiler (CUPTI) around a test or a block.
"""
