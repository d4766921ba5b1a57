# Completion of trainctl for fish. `trainctl completion fish` prints this file; trainctl itself knows the answers.
function __trainctl_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    test (count $lines) -gt 0; or return
    printf '%s\n' $lines[1..-2]
    switch $lines[-1]
        case :directories
            __fish_complete_directories "$current"
        case :files
            __fish_complete_path "$current"
        case :experiments
            __fish_complete_suffix .yaml
            __fish_complete_suffix .yml
    end
end
complete -c trainctl -f -k -a '(__trainctl_complete)'
