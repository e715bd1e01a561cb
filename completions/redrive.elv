
use builtin;
use str;

set edit:completion:arg-completer[redrive] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'redrive'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'redrive'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
            cand inspect 'Causes of dead letters, or the letters'
            cand show 'One letter, and what a redrive would do'
            cand status 'Depth, age, retention left, tiers, lag'
            cand alert 'Thresholds for monitors'
            cand check 'Validate a topology and say what it means; no network'
            cand plan 'Show what apply would change'
            cand apply 'Provision, then prove it by planning again'
            cand demo 'Make a folder with dead letters to play with'
            cand dev 'Play an application at the embedded broker'
            cand explain 'Explain a code such as RD0103, or a topic'
            cand completions 'Print completions for a shell'
            cand man 'Print the manual'
            cand relay 'Carry due messages from tiers to the source'
        }
        &'redrive;inspect'= {
            cand --by 'Put letters together by cause, error, frame, message, origin, group or header.NAME'
            cand --diff 'What sets the letters of this cause apart from the others'
            cand --cause 'Only letters of this cause; any unique beginning of its id'
            cand --where 'Only letters for which this holds: ''age > 2h and error ~ "Timeout"'''
            cand --since 'Only letters that died since then: 2h, or 2026-11-30T02:00:00Z'
            cand --until 'Only letters that died before then'
            cand --limit 'Show at most N causes or letters, or all; filters apply first'
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand --letters 'List letters, the oldest first, not causes'
            cand --all 'Also letters that a run has moved and the broker cannot delete'
            cand --full 'Cut nothing'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;show'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand --full 'Cut nothing'
            cand --raw 'Only the bytes of the body, exactly, into a file or pipe'
            cand --why 'Which dialect said what, and by what it knew the letter'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;status'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand --watch 'Count again and again, until Ctrl-C'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;alert'= {
            cand --as 'How to answer: text (JSON with -o json), nagios or prometheus'
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;check'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;plan'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand --check 'End with 10 if changes pend, with 4 if one of them is refused'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;apply'= {
            cand --accept-loss 'Make a change that loses messages of NAME; may be given several times, needs --reason'
            cand --reason 'Why: told in the answer'
            cand --yes 'Do not ask; with =N only if exactly N are about to be changed'
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;demo'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;dev'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
            cand send 'Send a message'
            cand receive 'Take messages, for as long as a lease lasts'
            cand ack 'Done with a message: remove it'
            cand fail 'Failed with a message: to the next tier, after the last to the dead-letter queue'
        }
        &'redrive;dev;send'= {
            cand --key 'Ordering key'
            cand --header 'A header; may be given several times'
            cand --body 'The body as text; without it the body is null'
            cand --body-file 'The body from a file, or - for stdin'
            cand --delay 'Hand it out this much later'
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;dev;receive'= {
            cand --max 'At most so many; one of each group at a time'
            cand --lease 'Hold them this long, else the queue''s own'
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;dev;ack'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;dev;fail'= {
            cand --class 'Class of the error'
            cand --message 'What the error says'
            cand --stack 'Stack trace'
            cand --stack-file 'Stack trace from a file, or - for stdin'
            cand --trace 'Trace id'
            cand --consumer 'Who failed'
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;explain'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;completions'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand --dynamic 'Also complete channels, by asking redrive for those of the topology (bash, zsh, fish)'
            cand --channels 'Print the channels of the topology, one a line; nothing if there is none'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;man'= {
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'redrive;relay'= {
            cand --listen 'Serve /healthz and /metrics at this address'
            cand -f 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --file 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml'
            cand --broker 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s'
            cand -o 'How to answer'
            cand --output 'How to answer'
            cand --once 'Carry what is due now, then end'
            cand -v 'Say on stderr what is done; twice: also what clients do'
            cand --verbose 'Say on stderr what is done; twice: also what clients do'
            cand -h 'Print help'
            cand --help 'Print help'
        }
    ]
    $completions[$command]
}
