"""`hanse cni`: a CNI plugin that tells another one what the pod's network provider says."""

import os
import sys

import click


@click.command("cni")
@click.pass_context
def command(context: click.Context) -> None:
    """Be a CNI plugin that hands a pod's cni-args on to another plugin.

    Runtimes call it by the CNI protocol: CNI_COMMAND and its like in the environment, the network
    configuration on standard input. It reads the pod's annotation arktos.futurewei.com/cni-args,
    adds it to CNI_ARGS, and calls the plugin of "delegate", whose answer is the answer.

    \b
    Examples:
      printf '#!/bin/sh\\nexec hanse cni\\n' > /opt/cni/bin/hanse && chmod +x /opt/cni/bin/hanse
      {"cniVersion": "1.0.0", "name": "pods", "type": "hanse", "kubeconfig": "FILE",
       "delegate": {"type": "mizarcni"}}
    """
    from hanse.cli.cni_call import CniCall, run_call
    from hanse.cli.process import run_async

    call = CniCall(dict(os.environ), sys.stdin.buffer.read())
    ended = run_async(lambda: run_call(call))
    sys.stdout.buffer.write(ended.out)
    sys.stderr.buffer.write(ended.err)
    sys.stdout.flush()
    context.exit(ended.status)
