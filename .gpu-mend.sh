#!/bin/bash
# First what failed and what did not end, each on the whole: 64 cores, four cards.
export LIMIT=${LIMIT:-330}
exec tools/gpu-run specs ^planner_spec ^pieces_spec ^nccl_spec ^cli_spec ^replay_spec ^border_spec \
  ^broadcast_spec ^calls_spec ^clifford_spec ^cycles_spec ^distributed_spec ^distributed_training_spec \
  ^distributions_spec ^draws_spec ^inspect_spec ^interrupt_spec ^kernel_inplace_spec ^kernel_rounds_spec \
  ^memory_spec ^random_mixed_spec ^random_rows_spec ^ranks_random_spec ^rng_spec ^slips_spec \
  ^test_lua_oom ^test_threads ^third_spec ^threads_spec
