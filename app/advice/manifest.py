"""The Kubernetes manifest of a serving design: one Deployment of replicas behind one Service."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from app.engine.result import Sized

PORT = 8000

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - inside a pod: the Service reaches it by the pod's address, loopback would refuse

GPU_RESOURCE = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
"""Names the vendors' device plugins give a GPU."""

IMAGES = {
    ("vllm", "nvidia"): "vllm/vllm-openai:v{series}.0",
    ("vllm", "amd"): "vllm/vllm-openai-rocm:v{series}.0",
    ("sglang", "nvidia"): "lmsysorg/sglang:latest",
    ("tensorrt_llm", "nvidia"): "nvcr.io/nvidia/tensorrt-llm/release:{series}.0",
}
"""The images the engines' makers publish. A pair that is absent has no one image we can name."""

TEMPLATE = """\
# Sized for {engine} {series}: pin the exact image release before production.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      containers:
        - name: server
          image: {image}
          command: {command}
          ports: [{{containerPort: {port}}}]
          resources:
            limits: {{{resource}: {gpus}}}
          startupProbe:
            httpGet: {{path: /health, port: {port}}}
            periodSeconds: 10
            failureThreshold: 180
          volumeMounts: [{{name: shared-memory, mountPath: /dev/shm}}]
      volumes:
        - name: shared-memory
          emptyDir: {{medium: Memory}}
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector: {{app: {name}}}
  ports: [{{port: {port}}}]
"""
"""Shared memory is mounted because tensor-parallel ranks exchange over it and a pod's default is 64 MB; the start may take
30 minutes (180 probes 10 s apart) while weights are fetched and loaded."""


def serving_manifest(model: str, sized: Sized, arguments: Sequence[str]) -> str:
    """YAML for ``kubectl apply``; empty where a replica spans servers (its pods need an operator that starts them as one
    group, which clusters differ in) or no public image is known for the engine on this vendor's GPUs."""
    vendor = sized.platform.gpu.vendor
    image = IMAGES.get((sized.engine, vendor))
    if image is None or sized.parallel.gpus > sized.platform.gpus_per_server:
        return ""
    return TEMPLATE.format(
        engine=sized.engine,
        series=sized.engine_version,
        name=_label(model),
        replicas=sized.replicas,
        image=image.format(series=sized.engine_version),
        command=json.dumps([*arguments, "--host", ALL_ADDRESSES, "--port", str(PORT)]),
        port=PORT,
        resource=GPU_RESOURCE[vendor],
        gpus=sized.parallel.gpus,
    )


def _label(model: str) -> str:
    """A DNS label (RFC 1123) that begins with a letter: ``meta-llama/Llama-3.1-8B`` becomes ``llm-llama-3-1-8b``."""
    plain = re.sub(r"[^a-z0-9]+", "-", model.rsplit("/", maxsplit=1)[-1].lower())
    return f"llm-{plain}"[:63].strip("-")
