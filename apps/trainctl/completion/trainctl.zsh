#compdef trainctl
# Completion of trainctl for zsh. `trainctl completion zsh` prints this file; trainctl itself knows the answers.
_trainctl() {
  local line text help paths
  local -a lines texts shown open_texts open_shown
  lines=("${(@f)$(${(Q)words[1]} __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  paths=$lines[-1]
  lines[-1]=()
  for line in $lines; do
    text=${line%%$'\t'*}
    help=${line#*$'\t'}
    [[ -z $help ]] || help="  -- $help"
    if [[ $text == *[=./] ]]; then  # more of the word follows
      open_texts+=("$text") open_shown+=("$text$help")
    else
      texts+=("$text") shown+=("$text$help")
    fi
  done
  (( $#texts )) && compadd -V trainctl -l -d shown -- $texts
  (( $#open_texts )) && compadd -V trainctl-open -S '' -l -d open_shown -- $open_texts
  case $paths in
    :directories) _files -/ ;;
    :files) _files ;;
    :experiments) _files -g '*.(yaml|yml)' ;;
  esac
}
if [[ $funcstack[1] == _trainctl ]]; then
  _trainctl "$@"
else
  compdef _trainctl trainctl
fi
