
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'redrive' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'redrive'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'redrive' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('inspect', 'inspect', [CompletionResultType]::ParameterValue, 'Causes of dead letters, or the letters')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'One letter, and what a redrive would do')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Depth, age, retention left, tiers, lag')
            [CompletionResult]::new('alert', 'alert', [CompletionResultType]::ParameterValue, 'Thresholds for monitors')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Validate a topology and say what it means; no network')
            [CompletionResult]::new('plan', 'plan', [CompletionResultType]::ParameterValue, 'Show what apply would change')
            [CompletionResult]::new('apply', 'apply', [CompletionResultType]::ParameterValue, 'Provision, then prove it by planning again')
            [CompletionResult]::new('demo', 'demo', [CompletionResultType]::ParameterValue, 'Make a folder with dead letters to play with')
            [CompletionResult]::new('dev', 'dev', [CompletionResultType]::ParameterValue, 'Play an application at the embedded broker')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'Explain a code such as RD0103, or a topic')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print completions for a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual')
            [CompletionResult]::new('relay', 'relay', [CompletionResultType]::ParameterValue, 'Carry due messages from tiers to the source')
            [CompletionResult]::new('resume', 'resume', [CompletionResultType]::ParameterValue, 'Go on with a run that stopped, crashed or was paused')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Send dead letters back: bounded, rate-limited, in order')
            [CompletionResult]::new('runs', 'runs', [CompletionResultType]::ParameterValue, 'List, show, pause, stop runs')
            [CompletionResult]::new('select', 'select', [CompletionResultType]::ParameterValue, 'Freeze a selection in a manifest')
            break
        }
        'redrive;inspect' {
            [CompletionResult]::new('--by', '--by', [CompletionResultType]::ParameterName, 'Put letters together by cause, error, frame, message, origin, group or header.NAME')
            [CompletionResult]::new('--diff', '--diff', [CompletionResultType]::ParameterName, 'What sets the letters of this cause apart from the others')
            [CompletionResult]::new('--cause', '--cause', [CompletionResultType]::ParameterName, 'Only letters of this cause; any unique beginning of its id')
            [CompletionResult]::new('--where', '--where', [CompletionResultType]::ParameterName, 'Only letters for which this holds: ''age > 2h and error ~ "Timeout"''')
            [CompletionResult]::new('--since', '--since', [CompletionResultType]::ParameterName, 'Only letters that died since then: 2h, or 2026-11-30T02:00:00Z')
            [CompletionResult]::new('--until', '--until', [CompletionResultType]::ParameterName, 'Only letters that died before then')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'Show at most N causes or letters, or all; filters apply first')
            [CompletionResult]::new('--newest', '--newest', [CompletionResultType]::ParameterName, 'List the newest N letters, the newest first; without a filter no others are read, where the broker can do that')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--letters', '--letters', [CompletionResultType]::ParameterName, 'List letters, the oldest first, not causes')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Also letters that a run has moved and the broker cannot delete')
            [CompletionResult]::new('--full', '--full', [CompletionResultType]::ParameterName, 'Cut nothing')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;show' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--full', '--full', [CompletionResultType]::ParameterName, 'Cut nothing')
            [CompletionResult]::new('--raw', '--raw', [CompletionResultType]::ParameterName, 'Only the bytes of the body, exactly, into a file or pipe')
            [CompletionResult]::new('--why', '--why', [CompletionResultType]::ParameterName, 'Which dialect said what, and by what it knew the letter')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;status' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Count again and again, until Ctrl-C')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;alert' {
            [CompletionResult]::new('--as', '--as', [CompletionResultType]::ParameterName, 'How to answer: text (JSON with -o json), nagios or prometheus')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;check' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--schema', '--schema', [CompletionResultType]::ParameterName, 'Print the JSON Schema of topologies instead, for editors')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;plan' {
            [CompletionResult]::new('--ledger', '--ledger', [CompletionResultType]::ParameterName, 'Where that is recorded; else REDRIVE_LEDGER, else the state folder')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'End with 10 if changes pend, with 4 if one of them is refused')
            [CompletionResult]::new('--applied', '--applied', [CompletionResultType]::ParameterName, 'Show what was applied before: when, by whom, why, how far')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;apply' {
            [CompletionResult]::new('--accept-loss', '--accept-loss', [CompletionResultType]::ParameterName, 'Make a change that loses messages of NAME; may be given several times, needs --reason')
            [CompletionResult]::new('--reason', '--reason', [CompletionResultType]::ParameterName, 'Why; recorded')
            [CompletionResult]::new('--ledger', '--ledger', [CompletionResultType]::ParameterName, 'Where it is recorded; else REDRIVE_LEDGER, else the state folder')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Do not ask; with =N only if exactly N are about to be changed')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;demo' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;dev' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('send', 'send', [CompletionResultType]::ParameterValue, 'Send a message')
            [CompletionResult]::new('receive', 'receive', [CompletionResultType]::ParameterValue, 'Take messages, for as long as a lease lasts')
            [CompletionResult]::new('ack', 'ack', [CompletionResultType]::ParameterValue, 'Done with a message: remove it')
            [CompletionResult]::new('fail', 'fail', [CompletionResultType]::ParameterValue, 'Failed with a message: to the next tier, after the last to the dead-letter queue')
            break
        }
        'redrive;dev;send' {
            [CompletionResult]::new('--key', '--key', [CompletionResultType]::ParameterName, 'Ordering key')
            [CompletionResult]::new('--header', '--header', [CompletionResultType]::ParameterName, 'A header; may be given several times')
            [CompletionResult]::new('--body', '--body', [CompletionResultType]::ParameterName, 'The body as text; without it the body is null')
            [CompletionResult]::new('--body-file', '--body-file', [CompletionResultType]::ParameterName, 'The body from a file, or - for stdin')
            [CompletionResult]::new('--delay', '--delay', [CompletionResultType]::ParameterName, 'Hand it out this much later')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;dev;receive' {
            [CompletionResult]::new('--max', '--max', [CompletionResultType]::ParameterName, 'At most so many; one of each group at a time')
            [CompletionResult]::new('--lease', '--lease', [CompletionResultType]::ParameterName, 'Hold them this long, else the queue''s own')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;dev;ack' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;dev;fail' {
            [CompletionResult]::new('--class', '--class', [CompletionResultType]::ParameterName, 'Class of the error')
            [CompletionResult]::new('--message', '--message', [CompletionResultType]::ParameterName, 'What the error says')
            [CompletionResult]::new('--stack', '--stack', [CompletionResultType]::ParameterName, 'Stack trace')
            [CompletionResult]::new('--stack-file', '--stack-file', [CompletionResultType]::ParameterName, 'Stack trace from a file, or - for stdin')
            [CompletionResult]::new('--trace', '--trace', [CompletionResultType]::ParameterName, 'Trace id')
            [CompletionResult]::new('--consumer', '--consumer', [CompletionResultType]::ParameterName, 'Who failed')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;explain' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;completions' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--dynamic', '--dynamic', [CompletionResultType]::ParameterName, 'Also complete channels, by asking redrive for those of the topology (bash, zsh, fish)')
            [CompletionResult]::new('--channels', '--channels', [CompletionResultType]::ParameterName, 'Print the channels of the topology, one a line; nothing if there is none')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;man' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;relay' {
            [CompletionResult]::new('--listen', '--listen', [CompletionResultType]::ParameterName, 'Serve /healthz and /metrics at this address')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--once', '--once', [CompletionResultType]::ParameterName, 'Carry what is due now, then end')
            [CompletionResult]::new('--without-transactions', '--without-transactions', [CompletionResultType]::ParameterName, 'Publish, then settle, even where the broker has transactions')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;resume' {
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Another rate than before')
            [CompletionResult]::new('--max-errors', '--max-errors', [CompletionResultType]::ParameterName, 'Stop after so many errors in a row; 0 is never')
            [CompletionResult]::new('--stop-on-refail', '--stop-on-refail', [CompletionResultType]::ParameterName, 'Stop when this part of what this resume moved, 20 letters at least, has died again; or off')
            [CompletionResult]::new('--reason', '--reason', [CompletionResultType]::ParameterName, 'Why; recorded with the one of the run')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Do not ask; with =N only if exactly N are about to be changed')
            [CompletionResult]::new('--events', '--events', [CompletionResultType]::ParameterName, 'JSON lines of what happens, to a file or to - (stdout)')
            [CompletionResult]::new('--ledger', '--ledger', [CompletionResultType]::ParameterName, 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--resend-in-doubt', '--resend-in-doubt', [CompletionResultType]::ParameterName, 'Send again what is in doubt: it may be there twice, and stays named')
            [CompletionResult]::new('--settle-in-doubt', '--settle-in-doubt', [CompletionResultType]::ParameterName, 'The effect of what is in doubt was seen: take the originals away')
            [CompletionResult]::new('--retry-failed', '--retry-failed', [CompletionResultType]::ParameterName, 'Also try again what failed')
            [CompletionResult]::new('--accept-gone', '--accept-gone', [CompletionResultType]::ParameterName, 'What the queue does not show any more is gone, as you found out: original of a moved letter, or a letter that was not sent yet')
            [CompletionResult]::new('--allow-stale', '--allow-stale', [CompletionResultType]::ParameterName, 'Skip letters that are gone, and let their groups go on')
            [CompletionResult]::new('--take-over', '--take-over', [CompletionResultType]::ParameterName, 'Take the dead-letter queue from a run that may be alive')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;run' {
            [CompletionResult]::new('--cause', '--cause', [CompletionResultType]::ParameterName, 'Only letters of this cause; any unique beginning of its id')
            [CompletionResult]::new('--where', '--where', [CompletionResultType]::ParameterName, 'Only letters for which this holds: ''age > 2h and error ~ "Timeout"''')
            [CompletionResult]::new('--since', '--since', [CompletionResultType]::ParameterName, 'Only letters that died since then: 2h, or 2026-11-30T02:00:00Z')
            [CompletionResult]::new('--until', '--until', [CompletionResultType]::ParameterName, 'Only letters that died before then')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'At most N letters, the oldest first, or all')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Letters per time: 50/s, 10/m, unlimited; else the manifest''s, else the topology''s')
            [CompletionResult]::new('--ramp', '--ramp', [CompletionResultType]::ParameterName, 'Start at 1/s and reach the rate after this long')
            [CompletionResult]::new('--reason', '--reason', [CompletionResultType]::ParameterName, 'Why; recorded. A manifest brings its own')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Do not ask; with =N only if exactly N are about to be changed')
            [CompletionResult]::new('--confirm', '--confirm', [CompletionResultType]::ParameterName, 'The channel''s name, instead of typing it out for an unlimited rate')
            [CompletionResult]::new('--max-errors', '--max-errors', [CompletionResultType]::ParameterName, 'Stop after so many errors in a row; 0 is never')
            [CompletionResult]::new('--stop-on-refail', '--stop-on-refail', [CompletionResultType]::ParameterName, 'Stop when this part of the moved letters, 20 at least, has died again; or off')
            [CompletionResult]::new('--events', '--events', [CompletionResultType]::ParameterName, 'JSON lines of what happens, to a file or to - (stdout)')
            [CompletionResult]::new('--ledger', '--ledger', [CompletionResultType]::ParameterName, 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder')
            [CompletionResult]::new('--order', '--order', [CompletionResultType]::ParameterName, 'Keep the order of each group, or none')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be sent, and send nothing')
            [CompletionResult]::new('--allow-stale', '--allow-stale', [CompletionResultType]::ParameterName, 'Run what is left of a manifest whose letters are gone or changed in part')
            [CompletionResult]::new('--take-over', '--take-over', [CompletionResultType]::ParameterName, 'Take the dead-letter queue from a run that may be alive')
            [CompletionResult]::new('--native', '--native', [CompletionResultType]::ParameterName, 'Let the broker move all by itself: no limit, no filter, no marks')
            [CompletionResult]::new('--dedupe', '--dedupe', [CompletionResultType]::ParameterName, 'Send one of letters with one event id and body, and settle the others')
            [CompletionResult]::new('--past-dedup-window', '--past-dedup-window', [CompletionResultType]::ParameterName, 'Also letters older than the dedup_window: consumers may have forgotten their ids')
            [CompletionResult]::new('--any-origin', '--any-origin', [CompletionResultType]::ParameterName, 'Also letters that died in another queue than this channel''s')
            [CompletionResult]::new('--moved-before', '--moved-before', [CompletionResultType]::ParameterName, 'Also letters that an earlier run has moved and the broker hands out again: they may be there twice')
            [CompletionResult]::new('--skip-overtaken', '--skip-overtaken', [CompletionResultType]::ParameterName, 'Leave letters that a later message of their group has overtaken where they died (Kafka, groups by key)')
            [CompletionResult]::new('--keep-timestamp', '--keep-timestamp', [CompletionResultType]::ParameterName, 'Copies keep the time at which their message was first published (Kafka)')
            [CompletionResult]::new('--trim', '--trim', [CompletionResultType]::ParameterName, 'At the end delete letters that a mark proves to be moved: on Kafka up to the first open one, on SQLite what a killed run left')
            [CompletionResult]::new('--without-transactions', '--without-transactions', [CompletionResultType]::ParameterName, 'Publish, record, settle, even where the broker has transactions')
            [CompletionResult]::new('--without-lookup', '--without-lookup', [CompletionResultType]::ParameterName, 'Ask the broker nothing about a send without an answer, as on one that cannot tell')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;runs' {
            [CompletionResult]::new('--ledger', '--ledger', [CompletionResultType]::ParameterName, 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Runs, the latest first; with --broker only those on it')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'One run: who, when, why, counts, and every letter that did not move')
            [CompletionResult]::new('pause', 'pause', [CompletionResultType]::ParameterValue, 'Ask a run to stop in order, to be resumed later')
            [CompletionResult]::new('stop', 'stop', [CompletionResultType]::ParameterValue, 'Ask a run to stop in order')
            break
        }
        'redrive;runs;list' {
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'At most so many')
            [CompletionResult]::new('--ledger', '--ledger', [CompletionResultType]::ParameterName, 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;runs;show' {
            [CompletionResult]::new('--ledger', '--ledger', [CompletionResultType]::ParameterName, 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--full', '--full', [CompletionResultType]::ParameterName, 'Every letter, also those that moved')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;runs;pause' {
            [CompletionResult]::new('--reason', '--reason', [CompletionResultType]::ParameterName, 'Why; recorded')
            [CompletionResult]::new('--ledger', '--ledger', [CompletionResultType]::ParameterName, 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;runs;stop' {
            [CompletionResult]::new('--reason', '--reason', [CompletionResultType]::ParameterName, 'Why; recorded')
            [CompletionResult]::new('--ledger', '--ledger', [CompletionResultType]::ParameterName, 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'redrive;select' {
            [CompletionResult]::new('--cause', '--cause', [CompletionResultType]::ParameterName, 'Only letters of this cause; any unique beginning of its id')
            [CompletionResult]::new('--where', '--where', [CompletionResultType]::ParameterName, 'Only letters for which this holds: ''age > 2h and error ~ "Timeout"''')
            [CompletionResult]::new('--since', '--since', [CompletionResultType]::ParameterName, 'Only letters that died since then: 2h, or 2026-11-30T02:00:00Z')
            [CompletionResult]::new('--until', '--until', [CompletionResultType]::ParameterName, 'Only letters that died before then')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'At most N letters, the oldest first, or all')
            [CompletionResult]::new('--out', '--out', [CompletionResultType]::ParameterName, 'Where the manifest goes; must not exist')
            [CompletionResult]::new('--reason', '--reason', [CompletionResultType]::ParameterName, 'Why; recorded')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Letters per time, for the run of it: 50/s, 10/m')
            [CompletionResult]::new('--ledger', '--ledger', [CompletionResultType]::ParameterName, 'Where runs are recorded; else REDRIVE_LEDGER, else the state folder')
            [CompletionResult]::new('--order', '--order', [CompletionResultType]::ParameterName, 'Keep the order of each group, or none')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Topology; else REDRIVE_TOPOLOGY, else ./redrive.yaml')
            [CompletionResult]::new('--broker', '--broker', [CompletionResultType]::ParameterName, 'Broker by its name in the topology; else REDRIVE_BROKER, else the channel''s')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'How to answer')
            [CompletionResult]::new('--dedupe', '--dedupe', [CompletionResultType]::ParameterName, 'Send one of letters with one event id and body, and settle the others')
            [CompletionResult]::new('--past-dedup-window', '--past-dedup-window', [CompletionResultType]::ParameterName, 'Also letters older than the dedup_window: consumers may have forgotten their ids')
            [CompletionResult]::new('--any-origin', '--any-origin', [CompletionResultType]::ParameterName, 'Also letters that died in another queue than this channel''s')
            [CompletionResult]::new('--moved-before', '--moved-before', [CompletionResultType]::ParameterName, 'Also letters that an earlier run has moved and the broker hands out again: they may be there twice')
            [CompletionResult]::new('--skip-overtaken', '--skip-overtaken', [CompletionResultType]::ParameterName, 'Leave letters that a later message of their group has overtaken where they died (Kafka, groups by key)')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say on stderr what is done; twice: also what clients do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
