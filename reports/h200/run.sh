#!/usr/bin/env bash
# Everything that is claimed about the GPU, on a machine that has one: bash reports/h200/run.sh COMMIT FOLDER
# ONLY_TESTS=1 leaves the benchmark out; PEERS is a folder of further packages, as humming-kernels, for the benchmark to import.
# Writes FOLDER/fp4ops.dispatchcov (records), workload.dispatchcov (of a server's work), dispatch.json (report), bench.json, memcheck.log and the logs of each step.
set -uo pipefail
cd "$(dirname "$0")/../.."
commit=$1 out=$2
export PYTHONPATH=. PYTHONUNBUFFERED=1
python=${PYTHON:-python3}

step() { # name, limit in seconds, command
    local name=$1 limit=$2 start=$SECONDS
    shift 2
    timeout "$limit" "$@" >"$out/$name.log" 2>&1
    echo "$name: exit $? after $((SECONDS - start)) s: $(grep -E 'passed|failed|ERROR SUMMARY|rror' "$out/$name.log" | tail -1)"
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >"$out/device.log"
step tests 240 "$python" -m pytest -p dispatchcov.pytest_plugin -q -p no:cacheprovider tests/fp4ops \
    --ignore tests/fp4ops/story --ignore tests/fp4ops/gpu/test_model.py --durations=8 \
    --dispatch-observe=torch --dispatch-report=term --dispatch-report="json:$out/dispatch.json" \
    --dispatch-data="$out/fp4ops.dispatchcov"
step model 100 "$python" -m pytest -p dispatchcov.pytest_plugin -q -p no:cacheprovider tests/fp4ops/gpu/test_model.py
step workload 60 "$python" -m fp4ops.bench workload --record "$out/workload.dispatchcov" \
    --prompts 2048,4096,733,8192,8,3072,6144,1024 --tokens 2
[ -n "${ONLY_TESTS:-}" ] || step bench 240 env PYTHONPATH=".${PEERS:+:$PEERS}" "$python" -m fp4ops.bench.gpu --commit "$commit" --out "$out/bench.json"
step memcheck 100 compute-sanitizer --tool memcheck --error-exitcode 9 \
    "$python" -m pytest -p dispatchcov.pytest_plugin -q -x -p no:cacheprovider tests/fp4ops/gpu/test_partitions.py -k 'dtype0 and not 65600 and not 17408'
sed -n '/dispatch coverage/,$p' "$out/tests.log" | head -60
[ -n "${ONLY_TESTS:-}" ] || tail -60 "$out/bench.log"
tail -4 "$out/memcheck.log"
