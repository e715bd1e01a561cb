//! Words of runtimes and operating systems that come in the language of the machine: one bug on two machines
//! says two of them. Compared is the English one; shown is what the letter says.

use std::borrow::Cow;

/// English words, and the same in other languages.
static WORDS: &[(&str, &[&str])] = &[
    (
        "Object reference not set to an instance of an object.",
        &[
            "Der Objektverweis wurde nicht auf eine Objektinstanz festgelegt.",
            "La référence d'objet n'est pas définie à une instance d'un objet.",
            "Referencia a objeto no establecida como instancia de un objeto.",
            "Riferimento a un oggetto non impostato su un'istanza di oggetto.",
            "Referência de objeto não definida para uma instância de um objeto.",
            "De objectverwijzing is niet op een exemplaar van een object ingesteld.",
            "Odwołanie do obiektu nie zostało ustawione na wystąpienie obiektu.",
            "Ссылка на объект не указывает на экземпляр объекта.",
            "オブジェクト参照がオブジェクト インスタンスに設定されていません。",
            "未将对象引用设置到对象的实例。",
        ],
    ),
    (
        "Index was outside the bounds of the array.",
        &[
            "Der Index war außerhalb des Arraybereichs.",
            "L'index se trouve en dehors des limites du tableau.",
            "Índice fuera de los límites de la matriz.",
        ],
    ),
    (
        "Input string was not in a correct format.",
        &[
            "Die Eingabezeichenfolge hat das falsche Format.",
            "Le format de la chaîne d'entrée est incorrect.",
            "La cadena de entrada no tiene el formato correcto.",
        ],
    ),
    (
        "Connection refused",
        &[
            "Verbindungsaufbau abgelehnt",
            "Connexion refusée",
            "Conexión rehusada",
            "Connessione rifiutata",
            "Conexão recusada",
            "В соединении отказано",
            "接続を拒否されました",
            "连接被拒绝",
            "拒绝连接",
        ],
    ),
    (
        "Connection timed out",
        &[
            "Die Wartezeit für die Verbindung ist abgelaufen",
            "Connexion terminée par expiration du délai d'attente",
            "Expiró el tiempo de conexión",
            "Время ожидания соединения истекло",
            "接続がタイムアウトしました",
            "连接超时",
        ],
    ),
    (
        "Connection reset by peer",
        &[
            "Die Verbindung wurde vom Kommunikationspartner zurückgesetzt",
            "Connexion ré-initialisée par le correspondant",
            "Conexión reinicializada por la máquina remota",
            "Соединение разорвано другой стороной",
        ],
    ),
    (
        "No such file or directory",
        &[
            "Datei oder Verzeichnis nicht gefunden",
            "Aucun fichier ou dossier de ce type",
            "No existe el archivo o el directorio",
            "Нет такого файла или каталога",
            "そのようなファイルやディレクトリはありません",
            "没有那个文件或目录",
        ],
    ),
    (
        "Permission denied",
        &[
            "Keine Berechtigung",
            "Permission non accordée",
            "Permiso denegado",
            "Отказано в доступе",
            "权限不够",
        ],
    ),
];

/// The message with the first such words in English.
pub(super) fn in_english(message: &str) -> Cow<'_, str> {
    for (english, others) in WORDS {
        if let Some(other) = others.iter().find(|other| message.contains(**other)) {
            return Cow::Owned(message.replacen(other, english, 1));
        }
    }
    Cow::Borrowed(message)
}
