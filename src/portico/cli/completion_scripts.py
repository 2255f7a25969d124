"""The completion script of each shell."""

BASH = r"""# Completion of portico for bash.
_portico() {
    local line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]} word cut
    COMPREPLY=()
    # bash also splits words at colons and equals signs; the part before the last of them is already on the line.
    cut=${line##*[[:space:]]}
    cut=${cut%"$current"}
    while IFS= read -r word; do
        if [[ $word == :files ]]; then
            compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
            continue
        fi
        [[ $word == */ ]] && compopt -o nospace 2>/dev/null
        if [[ $current != [\"\']* ]]; then printf -v word %q "$word"; fi
        COMPREPLY+=("${word#"$cut"}")
    done < <(command portico completion --line="$line" 2>/dev/null)
}
complete -F _portico portico
"""

ZSH = r"""# Completion of portico for zsh.
_portico() {
    local -a words_found folders
    local word
    for word in "${(@f)$(command portico completion --line="${LBUFFER}" 2>/dev/null)}"; do
        case $word in
            '') ;;
            :files) _files ;;
            */) folders+=("$word") ;;
            *) words_found+=("$word") ;;
        esac
    done
    (( $#folders )) && compadd -S '' -- "${folders[@]}"
    (( $#words_found )) && compadd -- "${words_found[@]}"
}
compdef _portico portico
"""

FISH = r"""# Completion of portico for fish.
function __portico_candidates
    for word in (command portico completion --line=(commandline -cp) 2>/dev/null)
        if test "$word" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $word
        end
    end
end
complete -c portico -f -a '(__portico_candidates)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
