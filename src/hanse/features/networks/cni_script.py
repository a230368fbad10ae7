"""The CNI plugin that guards install on their nodes: a shell script, so that any node can run it.

It runs the delegate on the node, as a runtime does, and asks the guard before and after: a node
needs neither Python nor credentials for it. A question is a line in the pipe `questions` of its
folder, with the name of a folder that has the call; the answer comes by the pipe `answer` there.
"""

import shlex

SCRIPT_MARK = "# A CNI plugin of Hanse, written and removed by `hanse guard`."
"""The line by which a script is known as ours."""
GUARD_SILENT = "the guard of this node does not answer"
"""How the error begins that runtimes get, and kubelets tell, while no guard runs."""
_SCRIPT = """\
#!/bin/sh
@MARK@
calls=@FOLDER@
attached="$calls/attached-${CNI_CONTAINERID:-}-${CNI_IFNAME:-}"

fail() {
    printf '{"cniVersion":"0.4.0","code":11,"msg":"%s"}\\n' "$1"
    exit 1
}

ask() {
    [ -p "$calls/questions" ] || return # no pipe, no guard; it would become a file
    printf '%s %s\\n' "${call##*/}" "$1" 1<>"$calls/questions"
    timeout @SECONDS@ head -n 1 <&3
}

run_plugin() { # FOLDER COMMAND: the plugin that the folder names, with the configuration in it
    name=$(cat "$1/plugin")
    args=${CNI_ARGS:-}
    [ ! -f "$1/args" ] || args=$(cat "$1/args")
    IFS=:
    for place in ${CNI_PATH:-}; do
        if [ -x "$place/$name" ]; then
            unset IFS
            CNI_COMMAND=$2 CNI_ARGS=$args "$place/$name" <"$1/delegate"
            return
        fi
    done
    unset IFS
    printf '{"cniVersion":"0.4.0","code":7,"msg":"plugin %s is not in %s; install it there"}\\n' \\
        "$name" "${CNI_PATH:-an empty CNI_PATH}"
    return 1
}

silent="@SILENT@; pods start once its pod of the DaemonSet runs"
umask 077
call=$(mktemp -d "$calls/call-XXXXXXXXXX" 2>/dev/null) || fail "$silent"
trap 'rm -rf "$call"' EXIT
cat >"$call/config"
for name in COMMAND CONTAINERID NETNS IFNAME ARGS; do
    eval "printf '%s\\n' \\"\\${CNI_$name-}\\""
done >"$call/environment"
mkfifo "$call/answer" || fail "$silent"
exec 3<>"$call/answer"

case $(ask begin) in
run) where=$call ;;
done) cat "$call/body"; exit 0 ;;
failed) cat "$call/body"; exit 1 ;;
*) # Containers end also while no guard runs, and those that this plugin has not attached.
    where=$attached
    [ -d "$where" ] || where=$calls/fallback
    if [ "${CNI_COMMAND:-}" != DEL ] || [ ! -d "$where" ]; then fail "$silent"; fi ;;
esac
run_plugin "$where" "$CNI_COMMAND" >"$call/result"
status=$?
if [ "$status" = 0 ] && [ "$where" = "$call" ] && [ "$CNI_COMMAND" = ADD ]; then
    if [ "$(ask end)" != done ]; then
        run_plugin "$call" DEL >/dev/null
        [ -s "$call/body" ] || fail "$silent"
        cat "$call/body"
        exit 1
    fi
fi
if [ "$status" = 0 ] && [ "$CNI_COMMAND" = DEL ]; then
    rm -rf "$attached"
fi
cat "$call/result"
exit "$status"
"""


def plugin_script(folder: str, answer_seconds: int) -> str:
    """The text of the plugin, a shell script; `folder` is where it and the guard exchange files.

    It waits `answer_seconds` for each answer of the guard.
    """
    chosen = _SCRIPT.replace("@MARK@", SCRIPT_MARK).replace("@FOLDER@", shlex.quote(folder))
    chosen = chosen.replace("@SILENT@", GUARD_SILENT)
    return chosen.replace("@SECONDS@", str(answer_seconds))
