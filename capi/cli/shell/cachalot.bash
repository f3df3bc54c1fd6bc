# SPDX-License-Identifier: MIT OR Apache-2.0
# Completion for bash, by `cachalot completion bash`.
_cachalot() {
  local command=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local options words i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '-h --help --version record run inspect replay tune measure convert report completion' -- "$current"))
    return
  fi
  # Behind -- stands the command line of another program.
  case $command in
    record | run)
      for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        if declare -F _command_offset >/dev/null; then
          _command_offset $((i + 1))
        elif ((COMP_CWORD == i + 1)); then
          COMPREPLY=($(compgen -c -- "$current"))
        fi
        return
      done
      ;;
  esac
  # Readline takes --option=value for three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $command,$previous in
    record,-o | record,--output) ;;
    record,--try) ;;
    record,--stacks) compopt +o default ;;
    record,--listen) ;;
    record,--keep) compopt +o default ;;
    run,--free) COMPREPLY=($(compgen -W 'wait event' -- "$current")) ;;
    run,--leash) compopt +o default ;;
    run,--async) COMPREPLY=($(compgen -W 'driver cachalot' -- "$current")) ;;
    run,--virtual) COMPREPLY=($(compgen -W 'driver cachalot' -- "$current")) ;;
    run,--config) ;;
    run,--policy) ;;
    run,--limit) compopt +o default ;;
    run,--tenant) ;;
    run,--trim-idle) compopt +o default ;;
    run,--metrics) ;;
    run,--print-env) ;;
    inspect,--try) ;;
    inspect,--places) compopt +o default ;;
    inspect,--config) ;;
    inspect,--torch) COMPREPLY=($(compgen -W '2.11 2.15' -- "$current")) ;;
    inspect,--policy) ;;
    inspect,--capacity) ;;
    inspect,--fraction) compopt +o default ;;
    replay,--config) ;;
    replay,--torch) COMPREPLY=($(compgen -W '2.11 2.15' -- "$current")) ;;
    replay,--policy) ;;
    replay,--capacity) ;;
    replay,--fraction) compopt +o default ;;
    tune,--capacity) ;;
    tune,--reserve) ;;
    tune,--release) COMPREPLY=($(compgen -W '2.11 2.15' -- "$current")) ;;
    tune,--config) ;;
    tune,--policy) ;;
    tune,--check) ;;
    tune,--costs) ;;
    tune,--strings) compopt +o default ;;
    tune,--seed) compopt +o default ;;
    tune,--threads) compopt +o default ;;
    tune,-o | tune,--output) ;;
    measure,--device) compopt +o default ;;
    measure,-o | measure,--output) ;;
    measure,--max-size) ;;
    measure,--rounds) compopt +o default ;;
    convert,-o | convert,--output) ;;
    convert,--to) COMPREPLY=($(compgen -W 'trace pickle perfetto table' -- "$current")) ;;
    convert,--process) compopt +o default ;;
    convert,--config) ;;
    convert,--torch) COMPREPLY=($(compgen -W '2.11 2.15' -- "$current")) ;;
    convert,--policy) ;;
    convert,--capacity) ;;
    convert,--fraction) compopt +o default ;;
    report,-o | report,--output) ;;
    report,--against-config) ;;
    report,--config) ;;
    report,--torch) COMPREPLY=($(compgen -W '2.11 2.15' -- "$current")) ;;
    report,--policy) ;;
    report,--capacity) ;;
    report,--fraction) compopt +o default ;;
    *)
      case $command in
        record) options='-h --help -o --output --try --audit --no-waits --stacks --live --listen --keep -q --quiet' ;;
        run) options='-h --help --free --leash --async --virtual --config --policy --limit --tenant --trim-idle --metrics --clear --whole --audit --print-env -q --quiet' ;;
        inspect) options='-h --help --json --try --places --config --torch --policy --capacity --fraction' ;;
        replay) options='-h --help --config --torch --policy --capacity --fraction --expect --script --all-stats --brief' ;;
        tune) options='-h --help --capacity --reserve --release --config --policy --only --check --costs --strings --seed --threads --json -o --output' ;;
        measure) options='-h --help --device -o --output --max-size --rounds' ;;
        convert) options='-h --help -o --output --to --process --config --torch --policy --capacity --fraction' ;;
        report) options='-h --help -o --output --against-config --config --torch --policy --capacity --fraction' ;;
        completion) options='-h --help' words='bash zsh fish' ;;
      esac
      [[ $current != -* ]] || words=$options
      COMPREPLY=($(compgen -W "$words" -- "$current"))
      ;;
  esac
}
complete -o default -F _cachalot cachalot
