#!/usr/bin/env bash
# PyTorch's attention and convolution and ONNX Runtime's FP4 matmul against their tables, on a machine with an sm_90 GPU:
# bash reports/h200/adapters.sh FOLDER
# Writes FOLDER/adapters.log and the records of PyTorch's samples, FOLDER/sdpa.dispatchcov and FOLDER/conv.dispatchcov.
# PyTorch's samples need the package expecttest; ONNX Runtime needs onnxruntime-gpu and onnx, and is left out without them.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=$1
export PYTHONPATH=.:${PYTHONPATH:-} PYTHONUNBUFFERED=1
python=${PYTHON:-python3}

step() { # limit in seconds, module, arguments
    local limit=$1 start=$SECONDS
    shift
    echo "\$ python -m $*"
    timeout "$limit" "$python" -m "$@" 2>&1
    echo "exit $? after $((SECONDS - start)) s"
}

{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    "$python" -c 'import torch; print(torch.__version__, torch.backends.cudnn.version())'
    for operator in sdpa conv; do
        step 60 "dispatchcov.adapters.$operator" --device=cuda --random=10000
        step 60 "dispatchcov.adapters.$operator" --device=cuda --samples --observe --data="$out/$operator.dispatchcov"
        [ $operator = conv ] || step 60 "dispatchcov.adapters.$operator" --device=cuda --samples --observe=torch
        step 30 "dispatchcov.adapters.$operator" --random=2000
    done
    step 60 dispatchcov.adapters.ort_fp4 --observe
} | tee "$out/adapters.log"
