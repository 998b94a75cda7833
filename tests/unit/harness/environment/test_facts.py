import os
import subprocess
import sys

import pytest
from tests.fakes.quick_python import search_path

from plumbline.harness.environment import collect_facts, container, cpu, host, network, software
from plumbline.harness.environment.sysfs import format_ranges
from plumbline.results import Environment

HASH = "from plumbline.harness.environment import collect_facts; from plumbline.results import Environment; print(Environment.of(collect_facts()).environment_hash)"


def put(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def hash_in_a_process_of_its_own(cores):
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {cores}); {HASH}"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": search_path("include")},
    )
    return done.stdout.strip()


def test_the_same_surroundings_have_the_same_hash():
    cores = os.sched_getaffinity(0)
    here = Environment.of(collect_facts()).environment_hash
    assert here == Environment.of(collect_facts()).environment_hash
    assert here == hash_in_a_process_of_its_own(cores)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores to take one away")
def test_fewer_cores_are_another_environment():
    cores = os.sched_getaffinity(0)
    assert hash_in_a_process_of_its_own({min(cores)}) != hash_in_a_process_of_its_own(cores)


def test_the_facts_that_reports_rely_on_are_there():
    found = collect_facts()
    assert list(found) == sorted(found)
    for name in ("cpu.model", "cpu.logical", "cpu.usable", "memory.total_bytes", "os.kernel", "os.name", "python.version", "numpy.version"):
        assert found[name], name
    assert found["cpu.usable"] == len(os.sched_getaffinity(0))
    assert "gpu.count" in found


def test_processor_facts_come_from_the_kernel(tmp_path):
    first = cpu.usable_cores()[0]
    base, mitigation = f"sys/devices/system/cpu/cpu{first}", "Mitigation: untrained return thunk"
    put(
        tmp_path,
        {
            "proc/cpuinfo": "processor: 0\nvendor_id : AuthenticAMD\nmodel name\t: Example 9\nmicrocode : 0xa\nflags : fpu avx2 avx512f hypervisor\n\nprocessor: 1\nmodel name: Other\n",
            f"{base}/cpufreq/scaling_governor": "powersave\n",
            f"{base}/cpufreq/cpuinfo_max_freq": "3700000\n",
            f"{base}/cache/index0/level": "1",
            f"{base}/cache/index0/type": "Data",
            f"{base}/cache/index0/size": "48K",
            f"{base}/cache/index1/level": "3",
            f"{base}/cache/index1/type": "Unified",
            f"{base}/cache/index1/size": "32M",
            f"{base}/topology/physical_package_id": "0",
            f"{base}/topology/core_id": "0",
            "sys/devices/system/cpu/vulnerabilities/retbleed": mitigation,
            "sys/devices/system/cpu/vulnerabilities/meltdown": "Not affected",
            "sys/devices/system/cpu/smt/active": "1",
            f"sys/devices/system/node/node0/cpu{first}/online": "1",
            "sys/devices/system/node/node1/cpulist": "64-127",
            "sys/devices/system/cpu/cpufreq/boost": "1\n",
            "proc/sys/kernel/numa_balancing": "0\n",
        },
    )
    found = cpu.cpu_facts(tmp_path)
    assert (found["cpu.model"], found["cpu.vendor"], found["cpu.isa"]) == ("Example 9", "AuthenticAMD", "avx2 avx512f")
    assert (found["cpu.governor"], found["cpu.frequency_max_mhz"], found["cpu.smt"]) == ("powersave", 3700.0, True)
    assert (found["cpu.cache.l1d_bytes"], found["cpu.cache.l3_bytes"]) == (48 * 2**10, 32 * 2**20)
    assert found["cpu.vulnerability.retbleed"] == mitigation
    assert "cpu.vulnerability.meltdown" not in found
    assert (found["cpu.physical"], found["cpu.sockets"], found["cpu.boost"]) == (1, 1, True)
    assert (found["numa.nodes"], found["numa.usable_nodes"], found["numa.balancing"]) == (2, "0", 0)
    assert cpu.last_level_cache_bytes(tmp_path) == 32 * 2**20


def test_boost_of_processors_that_say_when_it_is_forbidden(tmp_path):
    assert cpu.cpu_facts(put(tmp_path, {"sys/devices/system/cpu/intel_pstate/no_turbo": "1"}))["cpu.boost"] is False


def test_what_the_kernel_was_started_with_is_told_as_far_as_it_changes_speed(tmp_path):
    put(tmp_path, {"proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=0a1b mitigations=off iommu=pt nohz_full=2-7 quiet\n"})
    boot = {name: value for name, value in host.host_facts(tmp_path).items() if name.startswith("os.boot.")}
    assert boot == {"os.boot.mitigations": "off", "os.boot.iommu": "pt", "os.boot.nohz_full": "2-7"}


def test_limits_on_processes_are_the_tightest(tmp_path):
    put(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pods/trial\n",
            "sys/fs/cgroup/pods/pids.max": "4096\n",
            "sys/fs/cgroup/pods/trial/pids.max": "max\n",
        },
    )
    found = container.limit_facts(tmp_path)
    assert (found["limits.processes"], found["limits.shared_memory_bytes"]) == (4096, None)


def test_libraries_of_cuda_are_known_by_their_packages_or_their_files(monkeypatch, tmp_path):
    assert software.software_facts()["nccl.version"] is None or "." in software.software_facts()["nccl.version"]
    package = put(
        tmp_path, {"nvidia_nccl_cu13-2.28.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: nvidia-nccl-cu13\nVersion: 2.28.9\n"}
    )
    monkeypatch.syspath_prepend(str(package))
    assert software.software_facts()["nccl.version"] == "2.28.9"
    system = put(tmp_path / "lib", {"libcudnn.so.9": "", "libcudnn.so.9.8.0": "", "libcudnn.so.9.14.0": ""})
    monkeypatch.setattr(software, "_LIBRARIES", (tmp_path / "none", system))
    assert software.software_facts()["cudnn.version"] == "9.14.0"


def test_what_the_kernel_does_not_show_is_none(tmp_path):
    found = cpu.cpu_facts(tmp_path) | host.host_facts(tmp_path) | container.limit_facts(tmp_path) | network.network_facts(tmp_path)
    for name in (
        "cpu.boost",
        "cpu.sockets",
        "numa.usable_nodes",
        "network.congestion_control",
        "cpu.governor",
        "cpu.frequency_max_mhz",
        "cpu.isa",
        "host.product",
        "host.virtualization",
        "limits.cpu_quota",
    ):
        assert found[name] is None, name


def test_limits_of_cgroup_version_2_are_the_tightest_on_the_way_up(tmp_path):
    put(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pods/trial\n",
            "sys/fs/cgroup/pods/memory.max": "1073741824\n",
            "sys/fs/cgroup/pods/cpu.max": "max 100000\n",
            "sys/fs/cgroup/pods/trial/memory.max": "max\n",
            "sys/fs/cgroup/pods/trial/cpu.max": "150000 100000\n",
        },
    )
    assert (container.memory_limit_bytes(tmp_path), container.cpu_quota(tmp_path)) == (2**30, 1.5)


def test_limits_of_cgroup_version_1(tmp_path):
    put(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/trial\n3:cpu,cpuacct:/\n0::/\n",
            "sys/fs/cgroup/memory/trial/memory.limit_in_bytes": "536870912\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    assert (container.memory_limit_bytes(tmp_path), container.cpu_quota(tmp_path)) == (2**29, 2.0)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                "proc/self/cgroup": "0::/pods/trial\n",
                "sys/fs/cgroup/pods/trial/memory.events": "low 0\noom 2\noom_kill 1\noom_group_kill 0\n",
                "sys/fs/cgroup/pods/memory.events": "oom_kill 5\n",
            },
            1,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/trial\n0::/\n",
                "sys/fs/cgroup/memory/trial/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
                "proc/vmstat": "oom_kill 8\n",
            },
            3,
        ),
        ({"proc/self/cgroup": "0::/\n", "proc/vmstat": "nr_free_pages 12\noom_kill 8\n"}, 8),
        ({"proc/self/cgroup": "0::/\n", "proc/vmstat": "nr_free_pages 12\n"}, None),
    ],
)
def test_who_counts_processes_killed_for_want_of_memory(tmp_path, files, expected):
    put(tmp_path, files)
    assert container.oom_kills(tmp_path) == expected


def test_no_limit_is_none(tmp_path):
    put(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    assert (container.memory_limit_bytes(tmp_path), container.cpu_quota(tmp_path)) == (None, None)


def test_virtual_machines_say_so(tmp_path):
    clock = "sys/devices/system/clocksource/clocksource0/available_clocksource"
    put(
        tmp_path,
        {"proc/cpuinfo": "flags : fpu hypervisor\n", clock: "tsc kvm-clock acpi_pm\n", "sys/class/dmi/id/sys_vendor": "Amazon EC2\n"},
    )
    found = host.host_facts(tmp_path)
    assert (found["host.virtualization"], found["host.vendor"]) == ("kvm", "Amazon EC2")
    put(tmp_path, {"proc/cpuinfo": "flags : fpu\n"})
    assert host.host_facts(tmp_path)["host.virtualization"] == "none"


def test_a_pod_learns_its_image_and_limits_from_its_manifest(monkeypatch, tmp_path):
    for name, value in {
        "PLUMBLINE_IMAGE": "registry.example.com/plumbline-training@sha256:ab",
        "PLUMBLINE_CPU_LIMIT": "96",
        "PLUMBLINE_MEMORY_LIMIT": "966367641600",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    assert container.container_facts(tmp_path) == {
        "container.kind": "kubernetes",
        "container.image": "registry.example.com/plumbline-training@sha256:ab",
        "container.image_digest": "sha256:ab",
        "limits.pod_cpu": 96,
        "limits.pod_memory_bytes": 966367641600,
    }
    monkeypatch.setenv("PLUMBLINE_IMAGE", "localhost/plumbline/cpu:test")
    assert container.container_facts(tmp_path)["container.image_digest"] is None


def test_what_only_names_a_pod_is_no_environment(monkeypatch):
    before = collect_facts()
    for name in ("POD_NAME", "POD_UID", "POD_NAMESPACE", "NODE_NAME"):
        monkeypatch.setenv(f"PLUMBLINE_{name}", "gpu-17")
    assert collect_facts() == before


def test_thread_settings_are_facts_and_secrets_are_not(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    found = software.software_facts()
    assert found["setting.OMP_NUM_THREADS"] == "3"
    assert "hidden" not in found.values()


def test_every_setting_of_the_collective_libraries_is_a_fact(monkeypatch):
    settings = {"NCCL_SOCKET_IFNAME": "eth0", "FI_PROVIDER": "efa", "UCX_NET_DEVICES": "mlx5_0:1", "NCCL_TUNER_CONFIG_PATH": "/opt/tuner"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NCCL_PLUGIN_TOKEN", "hidden")
    monkeypatch.setenv("NCCLISH", "other")
    found = software.software_facts()
    assert {name: found.get(f"setting.{name}") for name in settings} == settings
    assert not {"hidden", "other"} & set(found.values())


def test_torch_is_known_without_importing_it():
    code = "import sys; from plumbline.harness.environment import software; found = software.software_facts(); assert found['torch.version']; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": search_path("include")}
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(("cores", "text"), [([0], "0"), ([1, 0, 2, 5], "0-2,5"), ([], ""), ([3, 4, 8, 9], "3-4,8-9")])
def test_cores_are_written_as_ranges(cores, text):
    assert format_ranges(cores) == text
