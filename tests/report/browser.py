"""A headless Chromium by the WebDriver protocol (w3.org/TR/webdriver2), with the standard library alone."""
import json, shutil, socket, subprocess, time, urllib.error, urllib.request


def missing():
    """What is not installed, or an empty text."""
    lacking = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return f"{' and '.join(lacking)} not found; apt-get install chromium chromium-driver" if lacking else ""


class Browser:
    def __init__(self, width=1280, height=900, dark=False):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.process = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        for _ in range(200):
            try:
                if self.ask("GET", "/status")["ready"]:
                    break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                     f"--window-size={width},{height}", "--host-resolver-rules=MAP * ~NOTFOUND"]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        session = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = f"/session/{session['sessionId']}"
        self.resize(width, height)

    def resize(self, width, height):
        self.send("/goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride",
                  params={"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.ask("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait()

    def ask(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            raise RuntimeError(problem.read().decode()[:2000]) from None

    def send(self, path, **body):
        return self.ask("POST", self.session + path, body)

    def open(self, url):
        self.send("/url", url="about:blank")
        self.send("/url", url=url)
        self.wait("return document.documentElement.dataset.ready === '1'")

    def run(self, script, *arguments):
        return self.send("/execute/sync", script=script, args=list(arguments))

    def wait(self, script, seconds=20):
        end = time.time() + seconds
        while not self.run(script):
            if time.time() > end:
                raise RuntimeError(f"waited in vain for: {script}; console: {self.problems()}")
            time.sleep(0.03)

    def click(self, selector):
        element = self.send("/element", using="css selector", value=selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        self.send(f"/element/{next(iter(element.values()))}/click")

    def text(self, selector):
        return self.run("const found = document.querySelector(arguments[0]); return found ? found.innerText : null", selector)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(each => each.innerText)", selector)

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def problems(self):
        """Errors and warnings of the console since the last call."""
        return [entry["message"] for entry in self.send("/se/log", type="browser") if entry["level"] in ("SEVERE", "WARNING")]

    def picture(self, path):
        import base64
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("GET", self.session + "/screenshot")))
