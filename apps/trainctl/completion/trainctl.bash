# Completion of trainctl for bash 4 and newer. `trainctl completion bash` prints this file; trainctl itself knows the answers.
_trainctl() {
  local program=${1/#\~/$HOME} line word paths
  local -a words=() lines=()
  # Bash splits words at '=' and ':', and trainctl does not.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ ${#words[@]} -gt 0 && ( $word == [=:]* || ${words[-1]} == *[=:] ) ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
  done
  local current=${words[-1]}
  mapfile -t lines < <("$program" __complete "${words[@]}" 2>/dev/null)
  [[ ${#lines[@]} -gt 0 ]] || return
  paths=${lines[-1]}
  unset 'lines[-1]'
  COMPREPLY=("${lines[@]%%$'\t'*}")
  case $paths in
    :directories) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$current") ;;
    :files) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$current") ;;
    :experiments)
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$current"; compgen -f -- "$current" | grep -E '\.ya?ml$') ;;
  esac
  [[ $paths == :none ]] || compopt -o filenames 2>/dev/null
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=./] ]] && compopt -o nospace 2>/dev/null
  # What stands before the last '=' or ':' is not part of the word that bash replaces.
  local before=${current%"${current##*[=:]}"}
  COMPREPLY=("${COMPREPLY[@]#"$before"}")
  # Readline quotes names of files, and nothing else: the name of a run must not become a command.
  [[ $paths != :none || ${#COMPREPLY[@]} -eq 0 ]] || mapfile -t COMPREPLY < <(printf '%q\n' "${COMPREPLY[@]}")
}
complete -o nosort -F _trainctl trainctl 2>/dev/null || complete -F _trainctl trainctl
