# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_redrive_global_optspecs
    string join \n f/file= broker= o/output= v/verbose h/help V/version
end

function __fish_redrive_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_redrive_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_redrive_using_subcommand
    set -l cmd (__fish_redrive_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c redrive -n "__fish_redrive_needs_command" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_needs_command" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_needs_command" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_needs_command" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_needs_command" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_needs_command" -s V -l version -d 'Print version'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "inspect" -d 'Causes of dead letters, or the letters'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "show" -d 'One letter, and what a redrive would do'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "status" -d 'Depth, age, retention left, tiers, lag'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "alert" -d 'Thresholds for monitors'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "check" -d 'Validate a topology and say what it means; no network'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "plan" -d 'Show what apply would change'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "apply" -d 'Provision, then prove it by planning again'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "demo" -d 'Make a folder with dead letters to play with'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "dev" -d 'Play an application at the embedded broker'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "explain" -d 'Explain a code such as RD0103, or a topic'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "man" -d 'Print the manual'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "relay" -d 'Carry due messages from tiers to the source'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "resume" -d 'Go on with a run that stopped, crashed or was paused'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "run" -d 'Send dead letters back: bounded, rate-limited, in order'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "runs" -d 'List, show, pause, stop runs'
complete -c redrive -n "__fish_redrive_needs_command" -f -a "select" -d 'Freeze a selection in a manifest'
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l by -d 'Put letters together by cause, error, frame, message, origin, group or header.NAME' -r
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l diff -d 'What sets the letters of this cause apart from the others' -r
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l cause -d 'Only letters of this cause; any unique beginning of its id' -r
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l where -d 'Only letters for which this holds: \'age > 2h and error ~ "Timeout"\'' -r
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l since -d 'Only letters that died since then: 2h, or 2026-11-30T02:00:00Z' -r
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l until -d 'Only letters that died before then' -r
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l limit -d 'Show at most N causes or letters, or all; filters apply first' -r
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l newest -d 'List the newest N letters, the newest first; without a filter no others are read, where the broker can do that' -r
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l letters -d 'List letters, the oldest first, not causes'
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l all -d 'Also letters that a run has moved and the broker cannot delete'
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -l full -d 'Cut nothing'
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand inspect" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand show" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand show" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand show" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand show" -l full -d 'Cut nothing'
complete -c redrive -n "__fish_redrive_using_subcommand show" -l raw -d 'Only the bytes of the body, exactly, into a file or pipe'
complete -c redrive -n "__fish_redrive_using_subcommand show" -l why -d 'Which dialect said what, and by what it knew the letter'
complete -c redrive -n "__fish_redrive_using_subcommand show" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand show" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand status" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand status" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand status" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand status" -l watch -d 'Count again and again, until Ctrl-C'
complete -c redrive -n "__fish_redrive_using_subcommand status" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand status" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand alert" -l as -d 'How to answer: text (JSON with -o json), nagios or prometheus' -r -f -a "text\t''
nagios\t''
prometheus\t''"
complete -c redrive -n "__fish_redrive_using_subcommand alert" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand alert" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand alert" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand alert" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand alert" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand check" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand check" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand check" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand check" -l schema -d 'Print the JSON Schema of topologies instead, for editors'
complete -c redrive -n "__fish_redrive_using_subcommand check" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand check" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand plan" -l ledger -d 'Where that is recorded; else REDRIVE_LEDGER, else the state folder' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand plan" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand plan" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand plan" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand plan" -l check -d 'End with 10 if changes pend, with 4 if one of them is refused'
complete -c redrive -n "__fish_redrive_using_subcommand plan" -l applied -d 'Show what was applied before: when, by whom, why, how far'
complete -c redrive -n "__fish_redrive_using_subcommand plan" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand plan" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand apply" -l accept-loss -d 'Make a change that loses messages of NAME; may be given several times, needs --reason' -r
complete -c redrive -n "__fish_redrive_using_subcommand apply" -l reason -d 'Why; recorded' -r
complete -c redrive -n "__fish_redrive_using_subcommand apply" -l ledger -d 'Where it is recorded; else REDRIVE_LEDGER, else the state folder' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand apply" -l yes -d 'Do not ask; with =N only if exactly N are about to be changed' -r
complete -c redrive -n "__fish_redrive_using_subcommand apply" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand apply" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand apply" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand apply" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand apply" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand demo" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand demo" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand demo" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand demo" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand demo" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and not __fish_seen_subcommand_from send receive ack fail" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand dev; and not __fish_seen_subcommand_from send receive ack fail" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and not __fish_seen_subcommand_from send receive ack fail" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand dev; and not __fish_seen_subcommand_from send receive ack fail" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and not __fish_seen_subcommand_from send receive ack fail" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and not __fish_seen_subcommand_from send receive ack fail" -f -a "send" -d 'Send a message'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and not __fish_seen_subcommand_from send receive ack fail" -f -a "receive" -d 'Take messages, for as long as a lease lasts'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and not __fish_seen_subcommand_from send receive ack fail" -f -a "ack" -d 'Done with a message: remove it'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and not __fish_seen_subcommand_from send receive ack fail" -f -a "fail" -d 'Failed with a message: to the next tier, after the last to the dead-letter queue'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from send" -l key -d 'Ordering key' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from send" -l header -d 'A header; may be given several times' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from send" -l body -d 'The body as text; without it the body is null' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from send" -l body-file -d 'The body from a file, or - for stdin' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from send" -l delay -d 'Hand it out this much later' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from send" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from send" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from send" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from send" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from send" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from receive" -l max -d 'At most so many; one of each group at a time' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from receive" -l lease -d 'Hold them this long, else the queue\'s own' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from receive" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from receive" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from receive" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from receive" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from receive" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from ack" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from ack" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from ack" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from ack" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from ack" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -l class -d 'Class of the error' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -l message -d 'What the error says' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -l stack -d 'Stack trace' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -l stack-file -d 'Stack trace from a file, or - for stdin' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -l trace -d 'Trace id' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -l consumer -d 'Who failed' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand dev; and __fish_seen_subcommand_from fail" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand explain" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand explain" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand explain" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand explain" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand explain" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand completions" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand completions" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand completions" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand completions" -l dynamic -d 'Also complete channels, by asking redrive for those of the topology (bash, zsh, fish)'
complete -c redrive -n "__fish_redrive_using_subcommand completions" -l channels -d 'Print the channels of the topology, one a line; nothing if there is none'
complete -c redrive -n "__fish_redrive_using_subcommand completions" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand completions" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand man" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand man" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand man" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand man" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand man" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand relay" -l listen -d 'Serve /healthz and /metrics at this address' -r
complete -c redrive -n "__fish_redrive_using_subcommand relay" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand relay" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand relay" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand relay" -l once -d 'Carry what is due now, then end'
complete -c redrive -n "__fish_redrive_using_subcommand relay" -l without-transactions -d 'Publish, then settle, even where the broker has transactions'
complete -c redrive -n "__fish_redrive_using_subcommand relay" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand relay" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l rate -d 'Another rate than before' -r
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l max-errors -d 'Stop after so many errors in a row; 0 is never' -r
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l stop-on-refail -d 'Stop when this part of what this resume moved, 20 letters at least, has died again; or off' -r
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l reason -d 'Why; recorded with the one of the run' -r
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l yes -d 'Do not ask; with =N only if exactly N are about to be changed' -r
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l events -d 'JSON lines of what happens, to a file or to - (stdout)' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l ledger -d 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand resume" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand resume" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l resend-in-doubt -d 'Send again what is in doubt: it may be there twice, and stays named'
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l settle-in-doubt -d 'The effect of what is in doubt was seen: take the originals away'
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l retry-failed -d 'Also try again what failed'
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l accept-gone -d 'What the queue does not show any more is gone, as you found out: original of a moved letter, or a letter that was not sent yet'
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l allow-stale -d 'Skip letters that are gone, and let their groups go on'
complete -c redrive -n "__fish_redrive_using_subcommand resume" -l take-over -d 'Take the dead-letter queue from a run that may be alive'
complete -c redrive -n "__fish_redrive_using_subcommand resume" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand resume" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l cause -d 'Only letters of this cause; any unique beginning of its id' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l where -d 'Only letters for which this holds: \'age > 2h and error ~ "Timeout"\'' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l since -d 'Only letters that died since then: 2h, or 2026-11-30T02:00:00Z' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l until -d 'Only letters that died before then' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l limit -d 'At most N letters, the oldest first, or all' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l rate -d 'Letters per time: 50/s, 10/m, unlimited; else the manifest\'s, else the topology\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l ramp -d 'Start at 1/s and reach the rate after this long' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l reason -d 'Why; recorded. A manifest brings its own' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l yes -d 'Do not ask; with =N only if exactly N are about to be changed' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l confirm -d 'The channel\'s name, instead of typing it out for an unlimited rate' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l max-errors -d 'Stop after so many errors in a row; 0 is never' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l stop-on-refail -d 'Stop when this part of the moved letters, 20 at least, has died again; or off' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -l events -d 'JSON lines of what happens, to a file or to - (stdout)' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand run" -l ledger -d 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand run" -l order -d 'Keep the order of each group, or none' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand run" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand run" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand run" -l dry-run -d 'Show what would be sent, and send nothing'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l allow-stale -d 'Run what is left of a manifest whose letters are gone or changed in part'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l take-over -d 'Take the dead-letter queue from a run that may be alive'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l native -d 'Let the broker move all by itself: no limit, no filter, no marks'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l dedupe -d 'Send one of letters with one event id and body, and settle the others'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l past-dedup-window -d 'Also letters older than the dedup_window: consumers may have forgotten their ids'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l any-origin -d 'Also letters that died in another queue than this channel\'s'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l moved-before -d 'Also letters that an earlier run has moved and the broker hands out again: they may be there twice'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l skip-overtaken -d 'Leave letters that a later message of their group has overtaken where they died (Kafka, groups by key)'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l keep-timestamp -d 'Copies keep the time at which their message was first published (Kafka)'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l trim -d 'At the end delete letters that a mark proves to be moved: on Kafka up to the first open one, on SQLite what a killed run left'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l without-transactions -d 'Publish, record, settle, even where the broker has transactions'
complete -c redrive -n "__fish_redrive_using_subcommand run" -l without-lookup -d 'Ask the broker nothing about a send without an answer, as on one that cannot tell'
complete -c redrive -n "__fish_redrive_using_subcommand run" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand run" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and not __fish_seen_subcommand_from list show pause stop" -l ledger -d 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand runs; and not __fish_seen_subcommand_from list show pause stop" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand runs; and not __fish_seen_subcommand_from list show pause stop" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand runs; and not __fish_seen_subcommand_from list show pause stop" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand runs; and not __fish_seen_subcommand_from list show pause stop" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and not __fish_seen_subcommand_from list show pause stop" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and not __fish_seen_subcommand_from list show pause stop" -f -a "list" -d 'Runs, the latest first; with --broker only those on it'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and not __fish_seen_subcommand_from list show pause stop" -f -a "show" -d 'One run: who, when, why, counts, and every letter that did not move'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and not __fish_seen_subcommand_from list show pause stop" -f -a "pause" -d 'Ask a run to stop in order, to be resumed later'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and not __fish_seen_subcommand_from list show pause stop" -f -a "stop" -d 'Ask a run to stop in order'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from list" -l limit -d 'At most so many' -r
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from list" -l ledger -d 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from list" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from list" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from list" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from show" -l ledger -d 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from show" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from show" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from show" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from show" -l full -d 'Every letter, also those that moved'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from pause" -l reason -d 'Why; recorded' -r
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from pause" -l ledger -d 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from pause" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from pause" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from pause" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from pause" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from pause" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from stop" -l reason -d 'Why; recorded' -r
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from stop" -l ledger -d 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from stop" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from stop" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from stop" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from stop" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand runs; and __fish_seen_subcommand_from stop" -s h -l help -d 'Print help'
complete -c redrive -n "__fish_redrive_using_subcommand select" -l cause -d 'Only letters of this cause; any unique beginning of its id' -r
complete -c redrive -n "__fish_redrive_using_subcommand select" -l where -d 'Only letters for which this holds: \'age > 2h and error ~ "Timeout"\'' -r
complete -c redrive -n "__fish_redrive_using_subcommand select" -l since -d 'Only letters that died since then: 2h, or 2026-11-30T02:00:00Z' -r
complete -c redrive -n "__fish_redrive_using_subcommand select" -l until -d 'Only letters that died before then' -r
complete -c redrive -n "__fish_redrive_using_subcommand select" -l limit -d 'At most N letters, the oldest first, or all' -r
complete -c redrive -n "__fish_redrive_using_subcommand select" -l out -d 'Where the manifest goes; must not exist' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand select" -l reason -d 'Why; recorded' -r
complete -c redrive -n "__fish_redrive_using_subcommand select" -l rate -d 'Letters per time, for the run of it: 50/s, 10/m' -r
complete -c redrive -n "__fish_redrive_using_subcommand select" -l ledger -d 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand select" -l order -d 'Keep the order of each group, or none' -r
complete -c redrive -n "__fish_redrive_using_subcommand select" -s f -l file -d 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml' -r -F
complete -c redrive -n "__fish_redrive_using_subcommand select" -l broker -d 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel\'s' -r
complete -c redrive -n "__fish_redrive_using_subcommand select" -s o -l output -d 'How to answer' -r -f -a "table\t''
json\t''
jsonl\t''"
complete -c redrive -n "__fish_redrive_using_subcommand select" -l dedupe -d 'Send one of letters with one event id and body, and settle the others'
complete -c redrive -n "__fish_redrive_using_subcommand select" -l past-dedup-window -d 'Also letters older than the dedup_window: consumers may have forgotten their ids'
complete -c redrive -n "__fish_redrive_using_subcommand select" -l any-origin -d 'Also letters that died in another queue than this channel\'s'
complete -c redrive -n "__fish_redrive_using_subcommand select" -l moved-before -d 'Also letters that an earlier run has moved and the broker hands out again: they may be there twice'
complete -c redrive -n "__fish_redrive_using_subcommand select" -l skip-overtaken -d 'Leave letters that a later message of their group has overtaken where they died (Kafka, groups by key)'
complete -c redrive -n "__fish_redrive_using_subcommand select" -s v -l verbose -d 'Say on stderr what is done; twice: also what clients do'
complete -c redrive -n "__fish_redrive_using_subcommand select" -s h -l help -d 'Print help'
