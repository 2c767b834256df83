"""The map from what users of such systems reported to the tests that look for it here.

Every report has tests, or the reason why it can't apply, or both where only a part applies.
A test is named by its file below ``tests`` and its function, with the case in brackets where
only one case is meant; ``attacks:ID`` is a case of the attack corpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["REPORTS", "Report"]


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one report.

    Args:
        tests: Tests that fail when the symptom appears.
        reason: Why it, or a part of it, can't appear here.
    """

    tests: tuple[str, ...] = ()
    reason: str = ""


_TREES = "reported/test_trees.py::test_"
_DEATHS = "reported/test_deaths.py::test_"
_CHANNELS = "reported/test_channels.py::test_"
_LIMITS = "reported/test_limits.py::test_"
_KERNEL = "reported/test_kernel.py::test_"
_PROGRAMS = "reported/test_programs.py::test_"
_ESCAPES = "reported/test_escapes.py::test_"

_WAITS_FOR_THE_PIPE = (
    "builtin/test_bash.py::test_what_a_command_leaves_running_ends_with_its_row",
    "jobs/test_service.py::test_what_a_shell_leaves_running_ends_with_it",
    _TREES + "a_timeout_that_kills_only_the_shell_leaves_descendants_holding_the_pipe",
)
_WORKER_OUTLIVES_HOST = (
    "e2e/test_supervisor_faults.py::test_no_worker_survives_a_killed_supervisor",
    "launcher/test_deaths.py::test_supervisor_end_kills_every_tree_and_removes_scratch",
)
_SPINNING_ORPHAN = _TREES + "an_orphan_spins_because_every_write_fails_with_epipe"
_FORGOTTEN_JOB = (
    _TREES + "background_terminals_never_time_out_and_are_never_found_again",
    "jobs/test_service.py::test_its_time_limit_ends_a_job",
)
_STUCK_THREAD = (_TREES + "a_worker_thread_can_not_be_terminated", "attacks:M07.thread")
_EARLY_DEATH = (_DEATHS + "the_parent_dies_before_the_child_has_its_death_signal",)
_PID_1 = (_DEATHS + "pid_1_ignores_the_signal_to_end",)
_POLLUTED = (
    _CHANNELS + "logs_on_stdout_corrupt_the_protocol_and_the_session_is_dropped",
    "e2e/test_handler_faults.py::test_what_a_plugin_prints_is_captured_and_never_protocol",
)
_BROKEN_PIPE = (
    _CHANNELS + "the_client_vanishes_and_a_broken_pipe_is_an_unhandled_crash",
    "cli/test_errors.py::test_a_closed_standard_output_is_not_a_traceback",
)
_FULL_PIPE = (
    _CHANNELS + "big_results_fill_the_pipe_and_a_killed_worker_deadlocks_the_others",
    "workers/test_node_isolation.py::test_logs_written_to_a_full_pipe_are_whole",
)
_NOT_TOLD = (_LIMITS + "a_task_can_not_learn_that_it_was_given_up",)
_GIVEN_UP_THREAD = (_LIMITS + "the_timeout_waits_for_the_thread_that_it_gave_up",)
_ADDRESS_SPACE = (_LIMITS + "an_address_space_limit_kills_wasm_and_the_first_fetch",)
_MEMORY = (
    _LIMITS + "memory_beside_the_heap_escapes_the_limit_and_one_tool_takes_the_others_along",
)
_OOM_UNNAMED = (*_MEMORY, "pool/test_verdict.py::test_an_exit_is_told_by_its_evidence")
_DELEGATION = (
    "launcher/test_probe.py::test_read_only_groups_are_named",
    "launcher/test_probe.py::test_simulated_lack_is_reported_and_refused",
    "launcher/test_cgroup_files.py::test_version_2_without_the_needed_controllers_is_named",
    "launcher/test_cgroup_files.py::test_version_2_group_is_made_below_the_delegated_one",
)
_APPARMOR = (_KERNEL + "apparmor_lets_unshare_succeed_and_strips_what_it_gave",)
_MASKED_PROC = (
    "launcher/test_probe.py::test_masked_proc_of_a_container_still_gives_namespaces_without_proc",
)
_NO_LANDLOCK = (
    _KERNEL + "a_kernel_without_landlock_ends_in_a_panic_instead_of_a_diagnosis",
    "launcher/test_probe.py::test_simulated_lack_is_reported_and_refused",
)
_WRONG_REFUSAL = (_KERNEL + "a_filter_that_says_forbidden_breaks_the_fallbacks_of_libraries",)
_IO_URING_KILLS = (_KERNEL + "programs_on_libuv_are_killed_for_trying_io_uring",)
_MULTIPROCESSING = (
    _PROGRAMS + "python_multiprocessing_has_no_semaphores_and_no_fork_server",
    _PROGRAMS + "semaphores_without_a_private_folder_for_them_fail_without_a_word",
    _PROGRAMS + "an_interpreter_that_is_there_can_not_start",
)
_UNIX_SOCKETS = (
    _PROGRAMS + "blocked_unix_sockets_break_development_tools",
    _PROGRAMS + "a_blocked_unix_socket_looks_like_another_error",
)
_NO_NAMES = (
    _PROGRAMS + "name_lookup_is_dead_with_the_network_granted",
    "launcher/test_network.py::test_name_lookup_fails_at_once_without_a_network_grant",
)
_NO_PROXY = "there is no proxy: a profile grants no network, a private loopback, or all of it"
_LITTER = (_PROGRAMS + "mount_points_for_absent_paths_stay_on_the_host_as_empty_files",)
_NPM = (_PROGRAMS + "npm_finds_neither_its_cache_nor_the_programs_of_a_package",)
_SOFT_LINKS = (
    _ESCAPES + "a_link_made_inside_of_the_grant_reaches_outside",
    "launcher/test_files.py::test_links_out_of_the_grant_lead_nowhere",
    "attacks:F03.js",
    "attacks:F03.py",
)
_LEAKED_DESCRIPTORS = (
    "launcher/test_network.py::test_inherited_descriptors_are_exactly_the_listed_ones",
    "builtin/test_bash.py::test_the_environment_is_the_workers_and_nothing_else",
    "attacks:F10.py",
)
_MEMORY_FILES = (
    _ESCAPES + "a_program_in_memory_is_run_although_execution_was_not_granted",
    "launcher/test_processes.py::test_programs_outside_the_grants_cannot_be_executed",
)
_SLOW_SCHEMA = (
    _ESCAPES + "an_expression_of_the_schema_hangs_the_validator",
    "schema/test_patterns.py::test_costly_pattern_on_long_text_is_refused_within_the_budget",
)
_LAUGHS = (
    _ESCAPES + "references_that_double_at_every_level_blow_up_the_validator",
    "schema/test_load_rules.py::test_schema_that_doubles_at_every_level_is_refused_in_few_steps",
)


def _each(repository: str, *numbers: int, **fields: str | tuple[str, ...]) -> Iterator[
    tuple[str, Report]
]:  # fmt: skip
    for number in numbers:
        yield f"{repository} #{number}", Report(**fields)  # type: ignore[arg-type]


def _all() -> Iterator[tuple[str, Report]]:
    # 1: hanging children, orphans, kills that do not reach the tree.
    yield from _each("openai/codex", 4337, 5258, 6575, tests=_WAITS_FOR_THE_PIPE)
    yield from _each(
        "openai/codex",
        5229,
        tests=(_TREES + "the_time_limit_is_ignored_when_the_command_starts_a_server",),
    )
    yield from _each(
        "openai/codex",
        7846,
        tests=(
            _TREES + "a_process_substitution_leaves_tee_and_timeout_behind",
            "builtin/test_bash.py::test_what_ends_by_itself_is_waited_for_and_not_counted",
        ),
    )
    yield from _each("openai/codex", 41841, 8740, tests=_FORGOTTEN_JOB)
    yield from _each(
        "hashicorp/go-plugin",
        136,
        tests=(
            _TREES + "a_kill_ends_one_process_and_its_children_survive",
            "launcher/test_processes.py::test_kill_ends_the_whole_tree_whatever_it_does",
        ),
    )
    yield from _each(
        "hashicorp/go-plugin",
        114,
        tests=(_SPINNING_ORPHAN,),
        reason="a worker is meant to end with its host, at once and whatever it ignores",
    )
    yield from _each(
        "hashicorp/go-plugin",
        320,
        tests=(
            "launcher/test_protocol.py::"
            "test_kill_of_an_unknown_spawn_is_ignored_and_clean_is_answered",
            "launcher/test_deaths.py::test_group_of_a_killed_launcher_is_removed_by_the_next",
        ),
        reason="nothing is ever attached to again by its process id",
    )
    yield from _each(
        "rshade/finfocus",
        1231,
        tests=(_TREES + "a_ci_job_waits_for_children_that_hold_its_output",),
    )
    yield from _each(
        "modelcontextprotocol/python-sdk",
        360,
        tests=(
            _TREES + "leaving_the_runtime_never_returns",
            "builtin/test_process.py::test_closing_the_runtime_ends_its_jobs",
        ),
    )
    yield from _each(
        "modelcontextprotocol/python-sdk",
        2773,
        tests=(
            _TREES + "a_tree_kill_does_nothing_once_the_leader_was_reaped",
            _TREES + "a_cancel_deadlocks_the_shutdown",
            "attacks:P05.exit",
        ),
    )
    yield from _each("modelcontextprotocol/python-sdk", 2231, tests=_WORKER_OUTLIVES_HOST)
    yield from _each(
        "ihor-sokoliuk/mcp-searxng",
        60,
        tests=(_TREES + "signals_stop_at_npx_and_orphan_the_server",),
    )
    yield from _each("web-infra-dev/midscene", 2157, tests=(_SPINNING_ORPHAN,))
    yield from _each(
        "noxdafox/pebble",
        62,
        tests=(_TREES + "the_call_timed_out_and_the_subprocess_it_started_runs_on",),
    )
    yield from _each(
        "microsoft/vscode",
        194477,
        tests=(_TREES + "a_worker_is_reported_as_exited_while_it_spins",),
    )
    yield from _each(
        "andymai/brepjs",
        1380,
        tests=(
            _TREES + "signals_stop_at_npx_and_orphan_the_server",
            _TREES + "the_timer_dies_with_the_host_and_orphans_the_group",
        ),
    )
    yield from _each("tinylibs/tinypool", 49, 54, tests=_STUCK_THREAD)
    yield from _each("vitest-dev/vitest", 2008, tests=_STUCK_THREAD)
    yield from _each(
        "richardsheridan/trio-parallel",
        348,
        tests=(
            _TREES + "a_service_manager_signals_the_workers_first_and_they_are_reported_broken",
        ),
    )

    # 2: death signals, PID 1, zombies, SIGTERM.
    yield from _each(
        "containers/bubblewrap",
        692,
        tests=(_DEATHS + "the_death_signal_is_tied_to_a_thread_and_kills_at_random",),
    )
    yield from _each("containers/bubblewrap", 633, 700, 730, tests=_EARLY_DEATH)
    yield from _each(
        "containers/bubblewrap",
        697,
        tests=(_DEATHS + "children_stay_zombies_in_a_container_without_init",),
    )
    yield from _each("nodejs/docker-node", 5, 323, tests=_PID_1)
    yield from _each(
        "kernel/kernel-images",
        351,
        tests=(_DEATHS + "a_wrapper_never_reaps_what_it_adopts_or_steals_statuses",),
    )
    yield from _each(
        "ray-project/ray",
        40210,
        tests=(
            "builtin/test_bash.py::test_a_command_that_ignores_the_signal_is_killed",
            "jobs/test_service.py::test_a_job_that_ignores_the_signal_is_killed_after_the_grace",
            "e2e/test_handler_faults.py::test_a_javascript_fault_has_one_outcome[ignores signals]",
        ),
    )

    # 3: polluted protocols, EPIPE, deadlocks, truncation.
    yield from (
        *_each("hurttlocker/o8", 1541, tests=_POLLUTED),
        *_each("mcp-hangar", 563, tests=_POLLUTED),
        *_each("AgentDeskAI/browser-tools-mcp", 239, tests=_POLLUTED),
    )
    yield from _each(
        "microsoft/azure-devops-mcp",
        147,
        tests=(
            *_POLLUTED,
            _CHANNELS + "what_a_tool_prints_gets_into_the_output_of_the_command_line",
        ),
    )
    yield from _each("modelcontextprotocol/typescript-sdk", 1564, 1568, tests=_BROKEN_PIPE)
    yield from _each(
        "earendil-works/pi",
        2928,
        tests=(
            _CHANNELS + "a_child_died_before_the_first_write_and_the_host_crashes",
            "hooks/test_faults.py::test_a_hook_that_does_not_read_a_large_event_is_no_fault",
        ),
    )
    yield from _each("noxdafox/pebble", 147, 163, 119, 69, tests=_FULL_PIPE)
    yield from _each(
        "e2b-dev/E2B",
        1128,
        tests=(
            _CHANNELS + "a_lost_sandbox_hangs_its_caller",
            "e2e/test_supervisor_faults.py::test_a_killed_launcher_loses_no_call_silently",
        ),
    )

    # 4: abort, timeout and limits.
    yield from _each(
        "piscinajs/piscina",
        156,
        tests=(
            *_NOT_TOLD,
            "workers/test_node_isolation.py::test_an_abort_reaches_the_signal_with_its_reason",
            "workers/test_python_isolation.py::test_an_abort_reaches_the_signal_with_its_reason",
        ),
    )
    yield from _each(
        "piscinajs/piscina", 934, tests=(_LIMITS + "aborting_one_task_kills_an_unrelated_task",)
    )
    yield from _each("modelcontextprotocol/python-sdk", 2507, tests=_NOT_TOLD)
    yield from _each("modelcontextprotocol", 418, tests=_NOT_TOLD)
    yield from _each("huggingface/smolagents", 2197, 2464, tests=_GIVEN_UP_THREAD)
    yield from _each(
        "rocketride-org/rocketride-server",
        1920,
        tests=(_LIMITS + "a_timeout_is_reported_while_the_script_runs_on_and_eats_memory",),
    )
    yield from _each("e2b-dev/E2B", 500, tests=(_LIMITS + "the_command_timed_out_and_continues",))
    yield from _each(
        "laverdet/isolated-vm",
        202,
        tests=(
            _LIMITS + "the_timeout_is_ignored_inside_of_a_native_call",
            "attacks:M06.regex",
        ),
    )
    yield from _each(
        "laverdet/isolated-vm",
        301,
        tests=(_LIMITS + "a_timeout_that_is_too_short_leaves_a_catastrophic_state",),
    )

    # 5: memory and resources.
    yield from _each("google/nsjail", 76, 262, tests=_ADDRESS_SPACE)
    yield from _each("langbot-plugin-sdk", 97, tests=_ADDRESS_SPACE)
    yield from _each("windmill", 10132, tests=_ADDRESS_SPACE)
    yield from _each("VCPToolBox", 370, tests=_ADDRESS_SPACE)
    yield from _each(
        "laverdet/isolated-vm", 107, 186, 499, 527, tests=(*_MEMORY, "attacks:M01.objects")
    )
    yield from _each("vercel-labs/quickjs-wasi", 30, tests=(*_MEMORY, "attacks:M02.arraybuffer"))
    yield from _each("google/gvisor", 2433, 2533, 12838, tests=_OOM_UNNAMED)
    yield from _each(
        "cloudflare/workerd", 49, tests=(_LIMITS + "nothing_limits_processor_time_and_memory",)
    )
    yield from _each("google/nsjail", 196, tests=_DELEGATION)
    yield from _each("systemd", 20026, 3500, tests=_DELEGATION)
    yield from _each("lxc", 3242, tests=_DELEGATION)
    yield from _each("containerd", 13397, tests=_DELEGATION)
    yield from _each("nomad", 19587, tests=_DELEGATION)

    # 6: kernels and set-up.
    yield from _each("anthropic-experimental/sandbox-runtime", 74, tests=_APPARMOR)
    yield from _each("openai/codex", 15057, tests=_APPARMOR)
    yield from _each("google/nsjail", 236, tests=_APPARMOR)
    yield from _each("akitaonrails/ai-jail", 34, tests=_APPARMOR)
    no_mount = _KERNEL + "a_namespace_without_the_right_to_mount_breaks_every_tool"
    yield from _each("NVIDIA/OpenShell", 1895, tests=(*_APPARMOR, no_mount))
    yield from _each("gominimal/minimal", 610, tests=_APPARMOR)
    yield from _each("sandbox-runtime", 214, tests=_MASKED_PROC)
    yield from _each("containers/bubblewrap", 505, 284, tests=_MASKED_PROC)
    yield from _each("carderne/pi-sandbox", 63, tests=_MASKED_PROC)
    yield from _each("openai/codex", 1039, 6828, 35547, 9292, tests=_NO_LANDLOCK)
    yield from _each("phylum-dev/birdcage", 31, tests=_NO_LANDLOCK)
    fail_open = "the_tool_runs_unconfined_with_a_warning_where_confinement_is_missing"
    yield from _each("openai/codex", 9959, tests=(_KERNEL + fail_open,))
    yield from _each(
        "openai/codex",
        18800,
        tests=(
            "launcher/test_probe.py::test_filter_of_a_container_that_forbids_unshare_is_named",
            no_mount,
        ),
    )
    yield from _each(
        "nolabs-ai/nono",
        416,
        tests=(_KERNEL + "the_list_of_security_modules_decides_instead_of_a_try",),
    )
    yield from _each(
        "anthropics/claude-code",
        81799,
        tests=(
            no_mount,
            "launcher/test_probe.py::test_user_namespaces_switched_off_by_sysctl_are_named",
        ),
    )
    yield from _each("moby/moby", 42680, 43595, tests=_WRONG_REFUSAL)
    yield from _each("lxqt-panel", 1562, tests=_WRONG_REFUSAL)
    yield from _each("libuv", 4010, tests=_IO_URING_KILLS)
    yield from _each("stacklok/go-microvm", 76, tests=_IO_URING_KILLS)
    yield from _each("uvloop", 752, tests=_IO_URING_KILLS)

    # 7: ordinary programs.
    yield from _each(
        "openai/codex",
        41175,
        tests=(
            _PROGRAMS + "spawn_sync_fails_after_a_child_that_succeeded",
            _PROGRAMS + "an_interpreter_that_is_there_can_not_start",
        ),
    )
    yield from _each("openai/codex", 7251, 24943, tests=_MULTIPROCESSING)
    yield from _each("anthropics/claude-code", 44180, 41254, tests=_UNIX_SOCKETS)
    yield from _each("openai/codex", 39140, tests=_UNIX_SOCKETS)
    yield from _each(
        "anthropics/claude-agent-sdk-typescript", 396, tests=_NO_NAMES, reason=_NO_PROXY
    )
    yield from _each("NVIDIA/OpenShell", 364, 269, tests=_NO_NAMES, reason=_NO_PROXY)
    yield from _each("NemoClaw", 626, tests=_NO_NAMES, reason=_NO_PROXY)
    yield from _each("sandbox-runtime", 139, 85, tests=_LITTER)
    yield from _each("anthropics/claude-code", 46584, tests=_LITTER)
    yield from _each("openai/codex", 31599, tests=_LITTER)
    yield from _each("RyderFreeman4Logos/cli-sub-agent", 2649, tests=_NPM)
    yield from _each("oalders/dot-files", 917, tests=_NPM)

    # 8: escapes and leaks.
    yield from _each("denoland/deno", 2318, 2738, 12152, tests=_SOFT_LINKS)
    yield from _each(
        "denoland/deno",
        11964,
        tests=(
            _ESCAPES + "running_one_program_and_writing_anywhere_is_running_anything",
            "launcher/test_processes.py::test_processes_run_with_the_grant_and_stay_confined",
        ),
        reason="the processes grant names no single program: whatever runs has the same grants",
    )
    yield from _each("nodejs/node", 49154, 56201, 44004, tests=_SOFT_LINKS)
    yield from _each("apptainer/singularity", 589, tests=_LEAKED_DESCRIPTORS)
    yield from _each("bubblewrap", 221, 243, tests=_LEAKED_DESCRIPTORS)
    yield from _each(
        "Harsh-2002/Orva",
        74,
        tests=(
            "builtin/test_bash.py::test_a_variable_reaches_the_environment_and_nothing_else",
            "builtin/test_process.py::test_a_variable_reaches_the_job_and_nothing_else",
        ),
    )
    yield from _each("landlock-lsm/linux", 37, 49, tests=_MEMORY_FILES)
    yield from _each(
        "huggingface/smolagents",
        2094,
        tests=(_ESCAPES + "native_calls_escape_a_list_of_forbidden_modules", "attacks:P16.py"),
    )
    yield from _each(
        "openai/codex",
        10814,
        tests=(
            _ESCAPES + "io_uring_goes_round_the_filter_of_the_network",
            "launcher/test_kernel.py::test_dangerous_system_calls_are_refused",
        ),
    )
    yield from _each(
        "Kilo-Org/kilocode",
        11596,
        tests=(_ESCAPES + "a_hard_link_is_an_alias_of_a_file_outside", "attacks:F05.py"),
        reason="a profile has no denied paths, so a .git made later in a grant belongs to it",
    )
    yield from _each("colinhacks/zod", 5851, tests=_SLOW_SCHEMA)
    yield from _each("everit-org/json-schema", 147, tests=_SLOW_SCHEMA)
    yield from _each("Aiven-Open/karapace", 1362, tests=_SLOW_SCHEMA)
    yield from _each("json-schema-spec", 315, tests=_LAUGHS)


def _unique(rows: Iterator[tuple[str, Report]]) -> Mapping[str, Report]:
    found: dict[str, Report] = {}
    for ident, report in rows:
        if ident in found:
            raise ValueError(f"{ident!r} is in the map twice")
        found[ident] = report
    return MappingProxyType(found)


REPORTS: Mapping[str, Report] = _unique(_all())
"""Repository as the report names it, and its number, to what became of it."""
